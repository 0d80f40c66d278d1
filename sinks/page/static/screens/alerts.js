/** Alerts: open ones first, then closed ones. */

import * as api from "../api.js";
import { empty, heading, moment, rowLink, since, state, table } from "../components.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { href } from "../router.js";

const OPEN = [
  { title: "State", kind: "state-column" },
  { title: "Alert", kind: "texts" },
  { title: "App", kind: "app-column" },
  { title: "Mean", kind: "number" },
  { title: "Target", kind: "number" },
  { title: "Onset", kind: "number time-column" },
  { title: "Raised", kind: "number time-column wide-only" },
];
const CLOSED = [...OPEN.slice(0, 6), { title: "Closed", kind: "number time-column" }];

export const alerts = { name: "alerts", title: "Alerts", polls: true, load, view };

async function load(context) {
  const data = await api.get("/api/alerts", {}, context.signal);
  context.setOpenAlerts(data.open.length);
  return data;
}

function view({ open, closed }) {
  if (open.length + closed.length === 0) {
    return [
      heading("Alerts"),
      empty(
        "No alerts yet",
        "An alert is raised when a mean drops below its target with high confidence. No action is needed until then.",
      ),
    ];
  }
  return [
    heading("Alerts", h("p", { class: "muted" }, `${open.length} open, ${closed.length} closed`)),
    open.length > 0
      ? table({ name: "Open alerts", kind: "alerts", columns: OPEN, rows: open.map((entry) => row(entry, true)) })
      : h("p", { class: "all-clear" }, state("ok"), "No open alerts."),
    closed.length > 0 ? h("h2", { class: "section-title" }, "Closed") : null,
    closed.length > 0
      ? table({
          name: "Closed alerts",
          kind: "alerts",
          columns: CLOSED,
          rows: closed.map((entry) => row(entry, false)),
        })
      : null,
  ];
}

function row(entry, isOpen) {
  return {
    key: entry.id,
    cells: [
      state(isOpen ? "alert" : "cleared"),
      [rowLink(href("alerts", entry.id), entry.summary), h("span", { class: "excerpt" }, format.words(entry.series))],
      entry.app,
      format.mean(entry.estimate),
      format.mean(entry.baseline),
      isOpen ? since(entry.onset_at) : moment(entry.onset_at),
      moment(isOpen ? entry.raised_at : entry.cleared_at),
    ],
  };
}
