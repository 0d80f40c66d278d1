/** The pipeline: records that reach each stage, the lag of the stages, and dead letters. */

import * as api from "../api.js";
import { meter } from "../charts.js";
import { ask, heading, moment, panel, table } from "../components.js";
import { announce, h } from "../dom.js";
import * as format from "../format.js";

const PAGE = 25;
/** The letters that are ticked, as `partition/offset`. */
const ticked = new Set();
let outcome = null;

export const pipeline = { name: "pipeline", title: "Pipeline", polls: true, load, poll, view };

async function load({ signal }) {
  const [state, page] = await Promise.all([pipelineState(signal), lettersPage({}, signal)]);
  return { ...state, ...page };
}

/** Letters stay unchanged while the reader looks at them; only the numbers are updated. */
async function poll({ signal }, data) {
  return { ...data, ...(await pipelineState(signal)) };
}

/** Without access to the broker, the rest of the screen is still shown. */
async function pipelineState(signal) {
  try {
    return { stateProblem: null, ...(await api.get("/api/pipeline", {}, signal)) };
  } catch (error) {
    if (!isPartial(error)) throw error;
    return { stateProblem: error.message };
  }
}

const isPartial = (error) => error.status >= 500;

async function lettersPage(params, signal) {
  try {
    const { letters, next } = await api.get("/api/dead-letters", { limit: PAGE, ...params }, signal);
    return { letters, next };
  } catch (error) {
    if (!isPartial(error)) throw error;
    return { letters: null, next: null, lettersProblem: error.message };
  }
}

function view(data, context) {
  return [
    heading("Pipeline"),
    data.stateProblem ? h("p", { class: "notice" }, data.stateProblem) : null,
    h(
      "div",
      { class: "columns even" },
      h("div", {}, panel("Funnel", funnel(data.funnel))),
      h("div", {}, panel("Lag", lag(data.lag))),
    ),
    deadLetters(data, context),
  ];
}

function funnel(steps) {
  if (!steps || steps.length === 0)
    return h("p", { class: "muted" }, "The topics cannot be read at the moment. Check that the broker is reachable.");
  const most = Math.max(1, ...steps.map(({ records }) => records));
  return h(
    "table",
    { class: "funnel" },
    h(
      "tbody",
      {},
      steps.map(({ name, records }) =>
        h(
          "tr",
          { key: name },
          h("th", { scope: "row" }, format.capital(format.words(name))),
          h("td", { class: "bar-cell" }, meter(records / most, "accent")),
          h("td", { class: "number" }, format.count(records)),
          h("td", { class: "number muted" }, format.percent(records / most, records === most ? 0 : 1)),
        ),
      ),
    ),
  );
}

function lag(groups) {
  if (!groups || groups.length === 0)
    return h("p", { class: "muted" }, "No consumer group has committed an offset yet.");
  return h(
    "table",
    { class: "plain" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("th", { scope: "col" }, "Consumer group"),
        h("th", { scope: "col" }, "Topic"),
        h("th", { scope: "col", class: "number" }, "Records behind"),
      ),
    ),
    h(
      "tbody",
      {},
      groups.map(({ group, topic, lag: behind }) =>
        h(
          "tr",
          { key: `${group}/${topic}` },
          h("td", {}, group),
          h("td", {}, topic),
          h("td", { class: "number" }, format.count(behind)),
        ),
      ),
    ),
  );
}

// Dead letters

function deadLetters(data, context) {
  const { dead_letters: summary, letters } = data;
  return h(
    "section",
    {},
    h(
      "div",
      { class: "heading" },
      h("h2", { class: "section-title" }, "Dead letters"),
      h(
        "div",
        { class: "aside" },
        h("p", { class: "muted" }, format.plural(summary?.total ?? 0, "record")),
        context.may("operator") && letters?.length > 0 ? replayButtons(data, context) : null,
      ),
    ),
    outcome ? h("p", { class: "notice", role: "status" }, outcome) : null,
    reasons(summary?.by_reason ?? []),
    letters === null ? h("p", { class: "notice" }, data.lettersProblem) : lettersTable(data, context),
    data.next
      ? h("p", { class: "pager" }, h("button", { on: { click: () => more(data, context) } }, "Load more"))
      : null,
  );
}

function reasons(counts) {
  if (counts.length === 0) return null;
  return h(
    "ul",
    { class: "chips" },
    counts.map(({ stage, reason, records }) =>
      h(
        "li",
        { key: `${stage}/${reason}` },
        h(
          "span",
          { class: "chip plain" },
          `${stage}: ${format.words(reason)}`,
          h("strong", {}, format.count(records)),
        ),
      ),
    ),
  );
}

function lettersTable({ letters }, context) {
  if (letters.length === 0)
    return h(
      "p",
      { class: "muted" },
      "No dead letters. Records that cannot be read or judged will be listed here with the reason.",
    );
  const mayReplay = context.may("operator");
  const columns = [
    ...(mayReplay ? [{ title: "", kind: "tick-column" }] : []),
    { title: "Reason", kind: "texts" },
    { title: "Stage", kind: "" },
    { title: "Source", kind: "wide-only" },
    { title: "Size", kind: "number" },
    { title: "Time", kind: "number time-column" },
  ];
  return table({
    name: "Dead letters",
    kind: "letters",
    columns,
    rows: letters.map((letter) => ({
      key: keyOf(letter),
      kind: letter.replayed ? "replayed" : "",
      cells: [...(mayReplay ? [tick(letter, context)] : []), ...cells(letter)],
    })),
  });
}

const keyOf = ({ partition, offset }) => `${partition}/${offset}`;

function tick(letter, context) {
  const change = (event) => {
    if (event.target.checked) ticked.add(keyOf(letter));
    else ticked.delete(keyOf(letter));
    context.redraw();
  };
  return h("input", {
    type: "checkbox",
    checked: ticked.has(keyOf(letter)),
    disabled: letter.replayed,
    "aria-label": `Select the dead letter at ${keyOf(letter)}`,
    on: { change },
  });
}

function cells(letter) {
  return [
    h(
      "details",
      { class: "bytes" },
      h(
        "summary",
        {},
        h("strong", {}, format.words(letter.reason)),
        letter.replayed ? h("span", { class: "tag" }, "replayed") : null,
        h("span", { class: "excerpt" }, letter.message),
      ),
      "bytes_text" in letter
        ? h("pre", { tabindex: 0 }, letter.bytes_text)
        : h("pre", { class: "hex", tabindex: 0, title: "Bytes in hexadecimal" }, letter.bytes_hex),
    ),
    letter.stage,
    h("code", {}, letter.source),
    format.bytes(letter.size),
    moment(letter.at, { seconds: true }),
  ];
}

function replayButtons(data, context) {
  const unreplayed = data.letters.filter((letter) => !letter.replayed);
  const chosen = unreplayed.filter((letter) => ticked.has(keyOf(letter)));
  const tickAll = () => {
    unreplayed.forEach((letter) => ticked.add(keyOf(letter)));
    context.redraw();
  };
  return h(
    "span",
    { class: "actions" },
    h("button", { disabled: chosen.length === unreplayed.length, on: { click: tickAll } }, "Select all shown"),
    h(
      "button",
      { class: "primary", disabled: chosen.length === 0, on: { click: () => replay(chosen, context) } },
      chosen.length === 0 ? "Replay selected" : `Replay ${chosen.length} selected`,
    ),
  );
}

async function replay(chosen, context) {
  const confirmed = await ask({
    title: `Replay ${format.plural(chosen.length, "dead letter")}?`,
    body: h(
      "p",
      {},
      "They will be written back to their source topics and processed again. The replay is recorded in the audit log.",
    ),
    confirm: "Replay",
  });
  if (!confirmed) return;
  try {
    const { replayed, skipped } = await api.post("/api/dead-letters/replay", {
      letters: chosen.map(({ partition, offset }) => ({ partition, offset })),
    });
    const rest = skipped.length > 0 ? `, ${skipped.length} skipped` : "";
    outcome = `${format.plural(replayed, "dead letter")} replayed${rest}.`;
    ticked.clear();
  } catch (error) {
    outcome = error.message;
  }
  announce(outcome);
  context.refresh();
}

async function more(data, context) {
  const { next } = data;
  const page = await lettersPage({ cursor: next });
  if (data.next !== next) return; // clicked twice
  data.letters.push(...(page.letters ?? []));
  data.next = page.next;
  context.redraw();
}
