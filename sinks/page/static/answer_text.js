/** The texts of an interaction; in the answer, the sentences that judges name are marked. */

import { h } from "./dom.js";
import * as format from "./format.js";

/** Worst first: where spans overlap, the worst verdict is shown. */
const VERDICTS = ["contradicted", "unsupported", "no_claim", "supported"];
const MEANINGS = {
  contradicted: "Contradicted: a context says something else",
  unsupported: "Unsupported: no context says this",
  no_claim: "No claim: nothing to check",
  supported: "Supported by the contexts",
};

/**
 * Cuts a text where spans begin and end. Offsets count code points; JavaScript's own count UTF-16 units.
 * @returns {Array<{text: string, spans: Array}>}
 */
export function cut(text, spans) {
  const points = Array.from(text);
  const inside = (offset) => offset > 0 && offset < points.length;
  const edges = spans.flatMap(({ start, length }) => [start, start + length]).filter(inside);
  const places = [...new Set([0, ...edges, points.length])].sort((one, other) => one - other);
  return places.slice(0, -1).map((start, index) => ({
    text: points.slice(start, places[index + 1]).join(""),
    spans: spans.filter((span) => span.start <= start && start < span.start + span.length),
  }));
}

export function answerText(text, spans = []) {
  if (!text) return h("p", { class: "muted" }, "The answer is empty.");
  return h("div", { class: "text answer-text" }, cut(text, spans).map(segment));
}

function segment({ text, spans }) {
  if (spans.length === 0) return h("span", {}, text);
  const verdict = VERDICTS.find((name) => spans.some((span) => span.verdict === name)) ?? "no_claim";
  const contexts = [...new Set(spans.flatMap((span) => span.contexts ?? []))].sort((one, other) => one - other);
  if (verdict === "no_claim") return h("span", {}, text);
  const tip = tipFor(verdict, spans, contexts);
  const light = (isOn) => (event) => highlight(event.currentTarget, contexts, isOn);
  return h(
    "mark",
    {
      class: `claim ${verdict}`,
      tabindex: 0,
      "data-tip": tip,
      on: { pointerenter: light(true), pointerleave: light(false), focus: light(true), blur: light(false) },
    },
    text,
    h("span", { class: "hidden" }, ` (${tip})`),
  );
}

function tipFor(verdict, spans, contexts) {
  const judges = [...new Set(spans.filter((span) => span.verdict === verdict && span.judge).map((span) => span.judge))];
  const where =
    contexts.length > 0
      ? `; see ${contexts.length === 1 ? "context" : "contexts"} ${contexts.map((index) => index + 1).join(", ")}`
      : "";
  return `${MEANINGS[verdict]}${where}${judges.length > 0 ? ` (judge ${judges.join(", ")})` : ""}`;
}

/** Highlights the contexts that a sentence rests on, and dims the others. */
function highlight(element, contexts, isOn) {
  const cards = element.closest(".texts-of-answer")?.querySelectorAll(".context") ?? [];
  cards.forEach((card, index) => {
    card.classList.toggle("linked", isOn && contexts.includes(index));
    card.classList.toggle("dimmed", isOn && contexts.length > 0 && !contexts.includes(index));
  });
}

export function spansLegend(spans = []) {
  const names = VERDICTS.filter((name) => name !== "no_claim" && spans.some((span) => span.verdict === name));
  if (names.length === 0) return null;
  return h(
    "p",
    { class: "span-legend" },
    names.map((name) =>
      h("span", {}, h("span", { class: `claim ${name} sample`, "aria-hidden": "true" }, "abc"), ` ${name}`),
    ),
  );
}

/** `useful` has the verdict on each context by its index, as far as there is one. */
export function contextList(contexts, useful = {}) {
  if (contexts.length === 0) return h("p", { class: "muted" }, "The service retrieved no contexts.");
  return h(
    "ol",
    { class: "contexts" },
    contexts.map((context, index) =>
      h(
        "li",
        { class: "context", key: index },
        h(
          "p",
          { class: "context-head" },
          h("span", { class: "context-number" }, index + 1),
          context.id ? h("code", {}, context.id) : null,
          Number.isFinite(context.score)
            ? h("span", { class: "muted" }, `retriever score ${format.score(context.score)}`)
            : null,
          index in useful ? h("span", { class: "muted" }, useful[index] ? "useful" : "not useful") : null,
        ),
        h("div", { class: "text" }, context.text),
      ),
    ),
  );
}

export function historyList(history) {
  if (history.length === 0) return null;
  return h(
    "details",
    { class: "history" },
    h("summary", {}, `Earlier conversation (${format.plural(history.length, "message")})`),
    h(
      "ol",
      { class: "turns" },
      history.map((turn, index) =>
        h("li", { key: index }, h("span", { class: "role" }, turn.role), h("div", { class: "text" }, turn.text)),
      ),
    ),
  );
}
