/**
 * Elements without HTML: text is set as text nodes only, so that no logged text can become markup.
 *
 * A screen builds its elements from its data each time; `patch` changes the document to match and keeps what is already
 * right. Focus, scroll position, hover and open details survive a poll.
 */

const SVG = "http://www.w3.org/2000/svg";
/** Set as properties: their attributes are only initial values. */
const PROPERTIES = new Set(["value", "checked", "indeterminate"]);
/** Belong to the reader once the element exists. */
const KEPT = new Set(["open"]);
/** Attributes that could run or fetch something. */
const REFUSED = /^(on|style$|src|srcdoc$|action$|formaction$|xlink)/i;

/** Handlers of each element, by event; an element has one listener per event, which looks here. */
const handlers = new WeakMap();

/**
 * Makes an HTML element.
 * @param {string} tag
 * @param {object} [props] attributes; `on: {event: handler}`; `key` names a child among its siblings for `patch`
 * @param {...(Node|string|number|null|false|Array)} children
 */
export function h(tag, props, ...children) {
  return build(document.createElement(tag), props, children);
}

/** Makes an SVG element. */
export function svg(tag, props, ...children) {
  return build(document.createElementNS(SVG, tag), props, children);
}

function build(element, props, children) {
  append(element, children);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (name === "on") listen(element, value);
    else if (name === "key") element.key = String(value);
    else if (PROPERTIES.has(name)) setProperty(element, name, value);
    else setAttribute(element, name, value);
  }
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child instanceof Node) element.append(child);
    else if (child !== null && child !== undefined && child !== false) element.append(String(child));
  }
}

function setProperty(element, name, value) {
  element[name] = value ?? "";
  (element.props ??= {})[name] = value ?? "";
}

function setAttribute(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (REFUSED.test(name)) throw new Error(`attribute ${name} is not allowed`);
  if (name === "href" && !/^(#|https?:\/\/)/i.test(value)) return;
  element.setAttribute(name, value === true ? "" : String(value));
}

function listen(element, events) {
  handlers.set(element, events);
  for (const type of Object.keys(events)) addDispatcher(element, type);
}

function addDispatcher(element, type) {
  const types = (element.dispatched ??= new Set());
  if (types.has(type)) return;
  types.add(type);
  element.addEventListener(type, (event) => handlers.get(element)?.[type]?.(event));
}

/** Makes the children of an element equal to these, and changes as little as possible. */
export function patchInto(parent, ...children) {
  const wanted = document.createDocumentFragment();
  append(wanted, children);
  patchChildren(parent, wanted);
}

function patchChildren(parent, wanted) {
  const keyed = new Map();
  for (const child of parent.childNodes) if (child.key !== undefined) keyed.set(child.key, child);
  let current = parent.firstChild;
  for (const fresh of [...wanted.childNodes]) {
    const match = fresh.key === undefined ? current : keyed.get(fresh.key);
    if (match && isSameKind(match, fresh)) {
      if (match === current) current = current.nextSibling;
      else parent.insertBefore(match, current);
      patch(match, fresh);
    } else {
      parent.insertBefore(fresh, current);
    }
  }
  while (current) {
    const following = current.nextSibling;
    current.remove();
    current = following;
  }
}

function isSameKind(old, fresh) {
  return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && old.key === fresh.key;
}

function patch(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  patchAttributes(old, fresh);
  patchChildren(old, fresh);
  patchProperties(old, fresh);
  const events = handlers.get(fresh) ?? {};
  handlers.set(old, events);
  for (const type of Object.keys(events)) addDispatcher(old, type);
}

function patchAttributes(old, fresh) {
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !KEPT.has(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (!KEPT.has(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
}

/** Leaves the field alone that the reader is using. */
function patchProperties(old, fresh) {
  if (!fresh.props) return;
  const isInUse = old === document.activeElement && !["checkbox", "radio"].includes(old.type);
  for (const [name, value] of Object.entries(fresh.props)) {
    if (!isInUse && old[name] !== value) old[name] = value;
  }
  old.props = fresh.props;
}

/** Announces a sentence to screen readers. */
export function announce(sentence) {
  document.getElementById("announcer").textContent = sentence;
}
