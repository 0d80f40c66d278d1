/** Judges and people: how well each judge agrees with the labels of reviewers. A part of the judges screen. */

import * as api from "./api.js";
import { empty, select, table } from "./components.js";
import { intervalBar } from "./charts.js";
import { h } from "./dom.js";
import * as format from "./format.js";
import { change, href, withParams } from "./router.js";

const TITLE = "Judges and people";
/** Labels come rarely, and comparing thousands of them takes a while. */
const FRESH_MS = 60_000;
const ATTRIBUTES = ["family", "language"];
const COLUMNS = [
  { title: "Judge", kind: "texts" },
  { title: "Criterion", kind: "titled" },
];
const FIGURES = [
  { title: "Labels", kind: "number" },
  { title: "Sensitivity", kind: "number" },
  { title: "Specificity", kind: "number" },
  { title: "Weighted kappa", kind: "number" },
  { title: "Bias", kind: "number" },
];

/** @param {object|null} before the part as it was loaded last; it is kept while it is fresh and the filters stay */
export async function loadQuality({ range, query, signal }, before = null) {
  const filters = { app: query.get("app"), by: query.get("by") };
  const key = JSON.stringify([filters, range.preset ?? [range.from, range.to]]);
  if (before?.key === key && Date.now() - before.loadedAt < FRESH_MS) return before;
  const reply = await api.get("/api/judges/labels", { from: range.from, to: range.to, ...filters }, signal);
  return { ...reply, key, loadedAt: Date.now() };
}

export function qualityPart(data, context) {
  return h(
    "section",
    { class: "quality", "aria-label": TITLE },
    h(
      "div",
      { class: "heading" },
      h("h2", { class: "section-title" }, TITLE),
      data.has_labels ? filters(data, context) : null,
    ),
    data.judges.length > 0 ? comparison(data) : nothing(data, context),
  );
}

function filters({ apps }, { query }) {
  const choice = (name, label, options, all) =>
    select({ label, value: query.get(name), options, all, onChange: (value) => change({ [name]: value }) });
  return h(
    "div",
    { class: "choices" },
    choice("app", "App", apps, "All"),
    choice("by", "By", ATTRIBUTES, "judge and criterion"),
  );
}

function comparison({ by, judges, cut, left_out: leftOut }) {
  const divided = by ? [{ title: format.capital(by), kind: "titled" }] : [];
  return [
    cut ? notice(cut) : null,
    table({
      name: TITLE,
      kind: "judges",
      columns: [...COLUMNS, ...divided, ...FIGURES],
      rows: judges.map((judge) => row(judge, by)),
    }),
    leftOut > 0 ? h("p", { class: "note" }, `${format.plural(leftOut, "row")} more: choose an app.`) : null,
    h(
      "p",
      { class: "note" },
      "Each figure has its 95% interval. Sensitivity: share of the answers below the middle of the scale that the judge ",
      "finds. Specificity: share of the others that it passes. Weighted kappa: agreement beyond chance. Bias: its score ",
      "minus the label.",
    ),
  ];
}

function notice({ answers, labels }) {
  const limits = `${format.plural(answers, "labelled answer")} of this range, and the latest ${format.count(labels)}`;
  return h("p", { class: "notice" }, `There are too many labels for one view: only the latest ${limits} labels count.`);
}

function row(judge, by) {
  return {
    key: JSON.stringify([judge.judge, judge.criterion, judge.value]),
    cells: [
      h("strong", {}, judge.judge),
      format.words(judge.criterion),
      ...(by ? [judge.value] : []),
      format.count(judge.labels),
      share(judge.sensitivity),
      share(judge.specificity),
      share(judge.kappa),
      bias(judge.bias),
    ],
  };
}

function share({ value, low, high }) {
  return figure(value, low, high, format.score, low === null ? null : intervalBar({ mean: value, low, high }));
}

function bias({ value, low, high }) {
  const words = low > 0 ? "milder than people" : high < 0 ? "stricter than people" : null;
  return figure(value, low, high, signed, words ? h("span", { class: "muted words" }, words) : null);
}

function figure(value, low, high, show, more) {
  if (value === null) return h("span", { class: "muted" }, format.NONE);
  const range = low === null ? "no interval" : `${show(low)} to ${show(high)}`;
  return h(
    "span",
    { class: "estimate", title: low === null ? "Too few labels, or all of them equal" : "95% interval" },
    h("strong", {}, show(value)),
    h("span", { class: "muted" }, range),
    more,
  );
}

const signed = (value) => `${value < 0 ? "−" : "+"}${format.mean(Math.abs(value))}`;

function nothing({ has_labels: hasLabels }, { query, may }) {
  if (hasLabels) {
    const wider = withParams(query, { range: "30d", from: null, to: null, app: null });
    return empty(
      "No labelled answers here",
      "Choose a longer time range above, or another app.",
      h("a", { class: "button", href: href("judges", null, wider) }, "Last 30 days of all apps"),
    );
  }
  return empty(
    "No labels yet",
    [
      "Labels of people show how often each judge is right. Label answers on the review screen, or send a file with ",
      h("code", {}, "streamjury labels send reviewed.csv"),
      ": see ",
      h("code", {}, "docs/labels.md"),
      ".",
    ],
    may("reviewer") ? h("a", { class: "button", href: href("review") }, "Review answers") : null,
  );
}
