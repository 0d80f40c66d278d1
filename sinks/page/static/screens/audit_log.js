/** The audit log: labels and replays, and who made them. */

import * as api from "../api.js";
import { empty, heading, moment, table } from "../components.js";
import { h } from "../dom.js";
import * as format from "../format.js";

const COLUMNS = [
  { title: "Time", kind: "time-column" },
  { title: "Who", kind: "" },
  { title: "Role", kind: "" },
  { title: "Action", kind: "" },
  { title: "Detail", kind: "texts" },
];

export const auditLog = { name: "audit-log", title: "Audit log", load, view };

async function load({ signal }) {
  return api.get("/api/audit-log", {}, signal);
}

async function more(data, context) {
  const { next } = data;
  const page = await api.get("/api/audit-log", { cursor: next });
  if (data.next !== next) return; // clicked twice
  data.entries.push(...page.entries);
  data.next = page.next;
  context.redraw();
}

function view(data, context) {
  const { entries, next } = data;
  if (entries.length === 0)
    return [
      heading("Audit log"),
      empty("No entries yet", "Labels and replays will be listed here, with the name of the person who made them."),
    ];
  return [
    heading("Audit log"),
    table({
      name: "Audit log",
      kind: "log",
      columns: COLUMNS,
      rows: entries.map((entry) => ({
        key: entry.id,
        cells: [
          moment(entry.at, { seconds: true }),
          entry.who,
          entry.role,
          format.words(entry.action),
          h("span", { class: "text" }, JSON.stringify(entry.detail)),
        ],
      })),
    }),
    next ? h("p", { class: "pager" }, h("button", { on: { click: () => more(data, context) } }, "Load more")) : null,
  ];
}
