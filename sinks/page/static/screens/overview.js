/** The overview: one row per app, worst state first, and the time strip. */

import * as api from "../api.js";
import { meter, sparkline } from "../charts.js";
import { empty, estimate, heading, rowLink, state, table } from "../components.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { around, fitTo, rangeOf, rangeParams } from "../range.js";
import { change, href, withParams } from "../router.js";
import { strip } from "../strip.js";

const ORDER = ["alert", "judges_down", "watching", "judges_changed", "not_enough_data", "ok"];
const COLUMNS = [
  { title: "State", kind: "state-column" },
  { title: "App", kind: "app-name" },
  { title: "Composite", kind: "number mean-column" },
  { title: "Good answers", kind: "number mean-column" },
  { title: "Trend", kind: "trend" },
  { title: "Effective n", kind: "number" },
  { title: "Coverage", kind: "number" },
  { title: "Spend", kind: "number spend" },
  { title: "Total lag", kind: "number lag" },
];

export const overview = {
  name: "overview",
  title: "Overview",
  polls: true,
  load,
  poll: (context, data) => (context.range.preset === null ? data : load(context, data)),
  view,
};

async function load(context, previous = null) {
  const { from, to, preset } = context.range;
  const reply = await api.get("/api/overview", { from, to }, context.signal);
  if (preset !== null && !context.query.has("range") && fitTo(reply.strip)) {
    return load({ ...context, range: rangeOf(context.query) }, previous);
  }
  const wider = preset === null ? await stripAround(context, previous) : stripOf(reply);
  context.setOpenAlerts(new Set(reply.apps.map((app) => app.alert?.id).filter(Boolean)).size);
  return { ...reply, apps: order(reply.apps, previous?.apps ?? []), strip: wider };
}

const stripOf = ({ from, to, step_seconds: step, strip: points }) => ({ from, to, step, points });

/** The strip shows more than the selection, so that it can be moved. */
async function stripAround(context, previous) {
  const { range } = context;
  const before = previous?.strip;
  if (before && before.from <= range.from && range.to <= before.to) return before;
  return stripOf(await api.get("/api/overview", around(range), context.signal));
}

/** Worst state first; but rows stay where they are while the reader points at one, or has the focus in one. */
function order(apps, previous) {
  if (previous.length > 0 && document.querySelector("table.apps:hover, table.apps:focus-within")) {
    const places = new Map(previous.map(({ app }, index) => [app, index]));
    const place = ({ app }) => places.get(app) ?? Infinity;
    return [...apps].sort((one, other) => place(one) - place(other));
  }
  const rank = ({ state: name }) => ORDER.indexOf(name);
  return [...apps].sort((one, other) => rank(one) - rank(other) || one.app.localeCompare(other.app));
}

function view(data, context) {
  if (data.apps.length === 0) return [heading("Overview"), emptyState(context), timeStrip(data, context)];
  const troubled = data.apps.filter(({ state: name }) => name !== "ok" && name !== "not_enough_data").length;
  const sentence =
    troubled === 0
      ? `${format.plural(data.apps.length, "app")}, no problems`
      : `${troubled} of ${format.plural(data.apps.length, "app")} ${troubled === 1 ? "needs" : "need"} attention`;
  return [
    heading("Overview", h("p", { class: "muted" }, sentence), totalSpend(data)),
    table({ name: "Apps", kind: "apps", columns: COLUMNS, rows: data.apps.map((app) => row(app, data, context)) }),
    data.apps_left_out > 0
      ? h("p", { class: "muted pager" }, `${format.plural(data.apps_left_out, "app")} with fewer answers not shown.`)
      : null,
    timeStrip(data, context),
  ];
}

function row(app, data, context) {
  const address = href("answers", null, { ...Object.fromEntries(rangeParams(context.query)), app: app.app });
  return {
    key: app.app,
    kind: `row-${app.state}`,
    cells: [
      stateCell(app),
      [rowLink(address, app.app), app.reason ? h("span", { class: "reason" }, app.reason) : null],
      [estimate(app.composite, format.mean), ...correctedMeans(app)],
      estimate(app.good, format.percent),
      sparkline(app.sparkline, { from: data.from, to: data.to, onset: app.alert?.onset_at }),
      h(
        "span",
        { title: app.composite ? `${format.plural(app.composite.n, "answer")} judged` : null },
        format.count(app.composite?.n_eff),
      ),
      format.percent(app.coverage, 0),
      spend(app),
      h("span", { title: "Sampled records of all apps that wait to be judged" }, format.count(app.lag)),
    ],
  };
}

/** The means of labelled criteria, without the judges' bias; with too few labels they are uncorrected,
 * and with labels of which a few outweigh the others. */
function correctedMeans({ corrected }) {
  return corrected.map(({ series, labels, needed, mean, low, high }) => {
    const words =
      mean === null
        ? `uncorrected (${labels < needed ? `${labels} of ${needed} labels` : "a few labels outweigh the others"})`
        : `${format.mean(mean)} (${format.interval(low, high, format.mean)}), corrected by ${format.plural(labels, "label")}`;
    return h("span", { class: "corrected muted" }, `${format.words(series)}: ${words}`);
  });
}

function stateCell({ state: name, alert }) {
  if (!alert) return state(name);
  return h(
    "a",
    { class: "state-link", href: href("alerts", alert.id) },
    state(name),
    h(
      "span",
      { class: "since", title: format.utc(alert.onset_at) },
      h("span", {}, `for ${durationOf(alert)}`),
      h("span", {}, `since ${format.time(alert.onset_at)}`),
    ),
  );
}

function totalSpend({ cost_usd: cost, budget_usd: budget }) {
  if (!budget) return null;
  return h("p", { class: "muted" }, `${format.usd(cost)} of ${format.usd(budget)} spent on judging`);
}

const durationOf = ({ onset_at: onset }) => format.duration((Date.now() - Date.parse(onset)) / 1000);

function spend({ cost_usd: cost, budget_usd: budget }) {
  if (!budget) return format.usd(cost);
  const share = cost / budget;
  return h(
    "span",
    { class: "spend-cell", title: `${format.percent(share)} of the budget` },
    h("span", {}, format.usd(cost), h("span", { class: "muted" }, ` of ${format.usd(budget)}`)),
    meter(share, share >= 0.9 ? "bad" : ""),
  );
}

function timeStrip({ strip: { points, from, to, step } }, context) {
  const { range } = context;
  return strip(points, {
    from,
    to,
    step,
    selected: range.preset === null ? range : null,
    redraw: context.redraw,
    onSelect: (start, end) => change({ from: start, to: end }),
    onClear: () => change({ from: null, to: null }),
  });
}

function emptyState({ query }) {
  const wider = (name, title) =>
    h(
      "a",
      { class: "button", href: href("overview", null, withParams(query, { range: name, from: null, to: null })) },
      title,
    );
  return empty(
    "No evaluations in this range",
    "If the service has traffic, check on the pipeline screen that it is sampled and judged. Or look further back:",
    wider("24h", "Last 24 hours"),
    wider("7d", "Last 7 days"),
    wider("30d", "Last 30 days"),
    h("a", { class: "button", href: href("pipeline") }, "Pipeline"),
  );
}
