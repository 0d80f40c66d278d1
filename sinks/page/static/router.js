/** Addresses of the page: `#/answers/ID?app=shop&range=1h`. Filters are in the address, so that links can be shared. */

/** @returns {{screen: string, id: string|null, query: URLSearchParams}} */
export function parseHash(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [screen, ...rest] = path.split("/");
  return {
    screen: screen || "overview",
    id: rest.length > 0 && rest[0] !== "" ? decode(rest.join("/")) : null,
    query: new URLSearchParams(query),
  };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const currentRoute = () => parseHash(location.hash);

/** Writes an address of the page; empty and missing parameters are left out. */
export function href(screen, id = null, params = {}) {
  return withQuery(id === null ? `#/${screen}` : `#/${screen}/${encodeURIComponent(id)}`, params);
}

/**
 * Appends parameters to a path; empty and missing ones are left out.
 * @param {object|URLSearchParams} params
 */
export function withQuery(path, params) {
  const entries = params instanceof URLSearchParams ? [...params] : Object.entries(params);
  const query = new URLSearchParams(
    entries.filter(([, value]) => value !== null && value !== undefined && value !== ""),
  );
  return query.size > 0 ? `${path}?${query}` : path;
}

export function go(address) {
  location.hash = address;
}

/** The screen that a single answer or alert is left for: its list, or the alert that the answer was opened from. */
export function parentOf({ screen, query }) {
  const alert = query.get("alert");
  return screen === "answers" && alert ? href("alerts", alert) : href(screen, null, query);
}

/**
 * Changes parameters of the address as it is now: the screen may have been drawn before another change.
 * @param {{isTyped?: boolean}} [options] text that is being typed makes no entries in the history
 */
export function change(changes, { isTyped = false } = {}) {
  const { screen, id, query } = currentRoute();
  const address = href(screen, id, withParams(query, changes));
  if (!isTyped) return go(address);
  history.replaceState(null, "", address);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** Returns a copy of a query with some parameters changed; null removes one. */
export function withParams(query, changes) {
  const copy = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "" || value === false) copy.delete(name);
    else copy.set(name, value === true ? "1" : String(value));
  }
  return copy;
}
