/** Judges: how often they answer, agree and fail, how long they take, what they cost, and how often they are right. */

import * as api from "../api.js";
import { empty, estimate, heading, state, table } from "../components.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { loadQuality, qualityPart } from "../judge_quality.js";

const COLUMNS = [
  { title: "Judge", kind: "texts" },
  { title: "State", kind: "state-column" },
  { title: "Verdicts", kind: "number" },
  { title: "Scored", kind: "number" },
  { title: "Failures", kind: "failures" },
  { title: "Agreement", kind: "number mean-column" },
  { title: "Latency p50 / p95", kind: "number" },
  { title: "Canaries", kind: "number" },
  { title: "Cost", kind: "number" },
];

export const judges = { name: "judges", title: "Judges", polls: true, load, view };

async function load(context, before = null) {
  const { from, to } = context.range;
  const [figures, quality] = await Promise.all([
    api.get("/api/judges", { from, to }, context.signal),
    loadQuality(context, before?.quality),
  ]);
  return { ...figures, quality };
}

function view({ judges: all, quality }, context) {
  if (all.length === 0) {
    return [
      heading("Judges"),
      empty(
        "No verdicts in this range",
        "Choose a longer time range above, or check on the pipeline screen that answers are being judged.",
      ),
    ];
  }
  return [
    heading("Judges", h("p", { class: "muted" }, format.plural(all.length, "judge"))),
    table({ name: "Judges", kind: "judges", columns: COLUMNS, rows: all.map(row) }),
    h("h2", { class: "section-title" }, "Mean score by criterion"),
    criteria(all),
    qualityPart(quality, context),
  ];
}

function row(judge) {
  return {
    key: judge.judge,
    cells: [
      h("strong", {}, judge.judge),
      judge.paused ? [state("paused"), h("span", { class: "reason" }, judge.paused)] : state("ok"),
      format.count(judge.n),
      format.percent(judge.n > 0 ? judge.scored / judge.n : null),
      failures(judge.failures),
      estimate(judge.agreement, format.percent),
      `${format.milliseconds(judge.latency_ms.p50)} / ${format.milliseconds(judge.latency_ms.p95)}`,
      canaries(judge.canaries),
      format.usd(judge.cost_usd),
    ],
  };
}

function failures(reasons) {
  const listed = Object.entries(reasons).sort(([, one], [, other]) => other - one);
  if (listed.length === 0) return h("span", { class: "muted" }, "none");
  return h(
    "ul",
    { class: "reasons" },
    listed.map(([reason, number]) =>
      h("li", {}, h("span", { class: "number" }, format.count(number)), ` ${format.words(reason)}`),
    ),
  );
}

function canaries(value) {
  if (!value) return h("span", { class: "muted" }, "none");
  const total = value.ok + value.changed;
  return value.changed === 0
    ? `${value.ok} unchanged`
    : h("strong", { class: "warn" }, `${value.changed} of ${total} changed`);
}

/** Judges side by side, one column each, so that a lenient one stands out. */
function criteria(all) {
  const names = [...new Set(all.flatMap((judge) => judge.criteria.map(({ criterion }) => criterion)))].sort();
  const cell = (judge, name) => judge.criteria.find(({ criterion }) => criterion === name);
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "Mean score by criterion" },
    table({
      name: "Mean score by criterion",
      kind: "sheet-table",
      columns: [{ title: "Criterion", kind: "" }, ...all.map(({ judge }) => ({ title: judge, kind: "number" }))],
      rows: names.map((name) => ({
        key: name,
        cells: [
          format.words(name),
          ...all.map((judge) => {
            const value = cell(judge, name);
            return h("span", { title: value ? format.plural(value.n, "verdict") : null }, format.mean(value?.mean));
          }),
        ],
      })),
    }),
  );
}
