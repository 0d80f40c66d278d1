/** One alert: the drop, its onset, its explanation, and the worst answers in it. */

import * as api from "../api.js";
import { bandChart } from "../charts.js";
import { answersTable, facts, icon, moment, panel, since, state, table } from "../components.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { href } from "../router.js";

export const alert = { name: "alert", title: "Alert", polls: true, load, view };

function load({ id, signal }) {
  return api.get(`/api/alerts/${encodeURIComponent(id)}`, {}, signal);
}

function view(data) {
  return [
    h("p", { class: "crumbs" }, h("a", { href: href("alerts") }, icon("back"), "Alerts")),
    h(
      "header",
      { class: "alert-head" },
      state(data.cleared_at ? "cleared" : "alert"),
      h("h1", {}, data.summary),
      facts([
        ["App", data.app],
        ["Onset", [moment(data.onset_at), " (", since(data.onset_at), ")"]],
        ["Raised", moment(data.raised_at)],
        ["Closed", data.cleared_at ? moment(data.cleared_at) : null],
        ["Mean", format.mean(data.estimate)],
        ["Target", format.mean(data.baseline)],
      ]),
    ),
    h(
      "div",
      { class: "columns" },
      h(
        "div",
        {},
        panel(
          "Scores around the onset",
          bandChart(data.chart, { onset: data.onset_at, target: targetOf(data), name: data.summary }),
        ),
      ),
      h("div", {}, explanation(data)),
    ),
    worst(data),
  ];
}

/** The target of a model comparison is a difference, which is not on the scale of the chart. */
const targetOf = ({ baseline, subject }) =>
  subject === "versions" || !(baseline >= 0 && baseline <= 1) ? null : baseline;

function explanation({ explanation: content, explanation_note: note }) {
  if (!content) {
    return panel(
      "What moved",
      h(
        "p",
        { class: "muted" },
        format.sentence(note ?? "there is no explanation yet; it will appear here when it is ready"),
      ),
    );
  }
  return panel(
    "What moved",
    h(
      "ul",
      { class: "sentences" },
      content.sentences.map((sentence) => h("li", {}, sentence)),
    ),
    content.sheets.map((sheet) => sheetTable(sheet)),
  );
}

function sheetTable({ title, columns, rows, notes = [] }) {
  const isNumber = (index) => rows.every((row) => /^[\s+\-–−.,\d%$()to]*$/.test(String(row[index] ?? "")));
  return h(
    "details",
    { class: "sheet", key: title },
    h("summary", {}, title),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": title },
      table({
        name: title,
        kind: "sheet-table",
        columns: columns.map((column, index) => ({ title: column, kind: isNumber(index) ? "number" : "" })),
        rows: rows.map((row, index) => ({ key: index, cells: row.map((cell) => String(cell ?? format.NONE)) })),
      }),
    ),
    notes.map((note) => h("p", { class: "muted small" }, note)),
  );
}

function worst({ worst: answers, app, onset_at: from, cleared_at: to, id }) {
  const all = href("answers", null, { app, from, to: to ?? new Date().toISOString() });
  return h(
    "section",
    {},
    h(
      "div",
      { class: "heading" },
      h("h2", { class: "section-title" }, "Worst answers in this alert"),
      h("div", { class: "aside" }, h("a", { href: all }, "All answers since the onset")),
    ),
    answers.length > 0
      ? answersTable(answers, (answer) => href("answers", answer.id, { alert: id }), "Worst answers in this alert")
      : h("p", { class: "muted" }, "The archive has no answers for this alert."),
  );
}
