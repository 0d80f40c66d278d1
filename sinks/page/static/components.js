/** Parts that several screens share: icons, states, scores, tables of answers, empty and failed states, dialogs. */

import { h, svg } from "./dom.js";
import { intervalBar, meter } from "./charts.js";
import * as format from "./format.js";
import { href } from "./router.js";

const ICONS = {
  overview: "M2.5 12.5 6 8l3 2.5 4.5-6M2.5 14.5h11",
  answers: "M3 3.5h10v7H7L4 13v-2.5H3z",
  alerts: "M8 2.5a4 4 0 0 1 4 4c0 3 1.5 4 1.5 4h-11S4 9.5 4 6.5a4 4 0 0 1 4-4M6.5 13h3",
  judges: "M8 2.5v11M5 13.5h6M3 4.5h10M3 4.5 1.5 9h3zM13 4.5 11.5 9h3z",
  pipeline: "M2.5 3.5h11L9.5 8.5v4l-3 1v-5z",
  review: "M3 13l.7-2.8 7-7 2.1 2.1-7 7zM9.5 4.5l2 2",
  ok: "M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8M5.2 8.2l2 2 3.7-4.2",
  watching: "M8 2.5 14.2 13.5H1.8zM8 6.5v3.2M8 11.6v.1",
  alert: "M5.4 1.8h5.2l3.6 3.6v5.2l-3.6 3.6H5.4l-3.6-3.6V5.4zM8 4.8v4M8 11v.1",
  not_enough_data: "M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8M5 8h.1M8 8h.1M11 8h.1",
  judges_changed: "M2.5 6h9l-2.5-2.5M13.5 10h-9l2.5 2.5",
  judges_down: "M2.5 2.5h11v11h-11zM5.5 5.5l5 5M10.5 5.5l-5 5",
  cleared: "M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8M5.2 8.2l2 2 3.7-4.2",
  paused: "M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8M6.3 5.5v5M9.7 5.5v5",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9M10.3 10.3l3.5 3.5",
  back: "M9.5 3.5 5 8l4.5 4.5",
  link: "M6.5 4h-3v8.5H12v-3M9 3.5h3.5V7M12.3 3.7 7 9",
};

export function icon(name) {
  return svg(
    "svg",
    { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" },
    svg("path", { d: ICONS[name] ?? "" }),
  );
}

const STATES = {
  ok: "OK",
  watching: "Watching",
  alert: "Alert",
  not_enough_data: "Not enough data",
  judges_changed: "Judges changed",
  judges_down: "Judges down",
  cleared: "Closed",
  paused: "Paused",
};

/** A state by shape, words and colour. */
export function state(name) {
  return h("span", { class: `state ${name}` }, icon(name), STATES[name] ?? format.capital(format.words(name)));
}

/** The status of a composite: a word, with a mark where it is not ok. */
export function status(name) {
  return h("span", { class: `status ${name}` }, name === "ok" ? "ok" : format.words(name));
}

/** A score of one answer, with a bar. */
export function scoreCell(value) {
  return h(
    "span",
    { class: `score ${format.band(value)}` },
    h("span", { class: "number" }, format.score(value)),
    Number.isFinite(value) ? meter(value) : null,
  );
}

/**
 * A mean with its interval. Where every answer was judged there is no sampling error, and the interval is one number.
 * @param {{mean: number, low: number, high: number}|null} value
 */
export function estimate(value, show) {
  if (!value) return h("span", { class: "muted" }, format.NONE);
  const isExact = value.low === value.high;
  const about = isExact ? "exact" : format.interval(value.low, value.high, show);
  return h(
    "span",
    { class: "estimate", title: isExact ? "Every answer was judged" : "95% interval" },
    h("strong", {}, show(value.mean)),
    h("span", { class: "muted" }, about),
    Number.isFinite(value.low) ? intervalBar(value) : null,
  );
}

/** A time in the reader's zone; UTC on hover. */
export function moment(iso, options) {
  return iso
    ? h("time", { datetime: iso, title: format.utc(iso) }, format.time(iso, options))
    : h("span", {}, format.NONE);
}

export function since(iso) {
  return iso ? h("time", { datetime: iso, title: format.utc(iso) }, format.ago(iso)) : h("span", {}, format.NONE);
}

/**
 * A table whose rows turn into cards on a phone.
 * @param {{name: string, columns: Array<{title: string, kind?: string}>,
 *   rows: Array<{key: string, cells: Array, kind?: string}>}} table
 */
export function table({ name, columns, rows, kind = "" }) {
  return h(
    "table",
    { class: `table ${kind}`, "aria-label": name },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        columns.map(({ title, kind: column }) =>
          h("th", { scope: "col", class: column }, title === "" ? h("span", { class: "hidden" }, "Action") : title),
        ),
      ),
    ),
    h(
      "tbody",
      {},
      rows.map(({ key, cells, kind: row }) =>
        h(
          "tr",
          { key, class: row },
          cells.map((cell, index) => h("td", { class: columns[index].kind, "data-title": columns[index].title }, cell)),
        ),
      ),
    ),
  );
}

/** A link that a whole row leads to; j and k move between these. */
export function rowLink(address, ...children) {
  return h("a", { class: "row-link", href: address }, ...children);
}

const ANSWER_COLUMNS = [
  { title: "Score", kind: "number score-column" },
  { title: "Question and answer", kind: "texts" },
  { title: "Status", kind: "status-column" },
  { title: "Worst criterion", kind: "wide-only" },
  { title: "Judges differ by", kind: "number wide-only" },
  { title: "App", kind: "app-column" },
  { title: "Time", kind: "number time-column" },
];

/** @param {(answer: object) => string} address where a row leads */
export function answersTable(answers, address, name = "Answers") {
  return table({
    name,
    kind: "answers",
    columns: ANSWER_COLUMNS,
    rows: answers.map((answer) => ({ key: answer.id, cells: answerCells(answer, address(answer)) })),
  });
}

function answerCells(answer, address) {
  return [
    scoreCell(answer.composite),
    [
      rowLink(address, answer.question || "(no question archived)"),
      h("span", { class: "excerpt" }, answer.answer || format.NONE),
    ],
    status(answer.status),
    format.words(answer.worst_criterion),
    h("span", { class: answer.spread >= 0.5 ? "differs" : "" }, format.score(answer.spread)),
    h(
      "span",
      {},
      answer.app,
      h("span", { class: "muted tenant" }, [answer.tenant, answer.model].filter(Boolean).join(" · ")),
    ),
    moment(answer.at),
  ];
}

/** An empty screen: a title, a sentence that says what to do next, and buttons for it. */
export function empty(title, sentence, ...actions) {
  return h(
    "div",
    { class: "empty" },
    h("h2", {}, title),
    h("p", {}, sentence),
    actions.length > 0 ? h("p", { class: "actions" }, actions) : null,
  );
}

export function failed(error, retry) {
  return h(
    "div",
    { class: "empty failed", role: "alert" },
    h("h2", {}, error.status === 404 ? "Not found" : "This could not be loaded"),
    h("p", {}, error.message),
    h(
      "p",
      { class: "actions" },
      h("button", { class: "primary", on: { click: retry } }, "Try again"),
      h("a", { class: "button", href: href("overview") }, "Go to the overview"),
    ),
  );
}

/** Grey lines in place of data that is being loaded. */
export function loading() {
  return h(
    "div",
    { class: "loading", role: "status" },
    h("span", { class: "hidden" }, "Loading"),
    Array.from({ length: 6 }, () => h("div", { class: "bone" })),
  );
}

export function heading(title, ...aside) {
  return h("div", { class: "heading" }, h("h1", {}, title), h("div", { class: "aside" }, aside));
}

export function panel(title, ...children) {
  return h("section", { class: "panel" }, h("h2", {}, title), ...children);
}

/** Pairs of a name and a value. */
export function facts(pairs) {
  const present = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h(
    "dl",
    { class: "facts" },
    present.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}

export function select({ label, value, options, onChange, all = "All" }) {
  const choices = value && !options.includes(value) ? [...options, value] : options;
  return h(
    "label",
    { class: "field" },
    h("span", {}, label),
    h(
      "select",
      { value: value ?? "", on: { change: (event) => onChange(event.target.value) } },
      h("option", { value: "" }, all),
      choices.map((option) => h("option", { value: option }, format.words(option))),
    ),
  );
}

/** Opens the dialog of the page; resolves to true if its main button was pressed. */
export function ask({ title, body, confirm = null }) {
  const dialog = document.getElementById("dialog");
  const close = (value) => () => dialog.close(value);
  dialog.replaceChildren(
    h("h2", { id: "dialog-title" }, title),
    h("div", { class: "dialog-body" }, body),
    h(
      "div",
      { class: "actions" },
      confirm ? h("button", { class: "primary", on: { click: close("yes") } }, confirm) : null,
      h("button", { on: { click: close("") } }, confirm ? "Cancel" : "Close"),
    ),
  );
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
