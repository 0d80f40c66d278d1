/** One answer: its texts with marked sentences, every verdict, and the terms of the composite. */

import * as api from "../api.js";
import { leaveFor, neighboursOf } from "../answer_list.js";
import { answerText, contextList, historyList, spansLegend } from "../answer_text.js";
import { facts, icon, moment, panel, scoreCell, status } from "../components.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { go, href, parentOf } from "../router.js";

let position = { previous: null, next: null, query: null };

export const answer = { name: "answer", title: "Answer", load, view, key: handleKey };

async function load({ id, query, signal }) {
  leaveFor(id);
  const data = await api.get(`/api/answers/${encodeURIComponent(id)}`, {}, signal);
  const neighbours = neighboursOf(id) ?? data.neighbours;
  position = { previous: neighbours.previous, next: neighbours.next, query };
  return { ...data, neighbours };
}

function handleKey(event) {
  const { previous, next } = position;
  const target = { j: next, ArrowRight: next, k: previous, ArrowLeft: previous }[event.key];
  if (target) go(href("answers", target, position.query));
  return Boolean(target);
}

function view(data, context) {
  const { evaluation } = data;
  return [
    navigation(data, context),
    h(
      "div",
      { class: "columns answer-columns" },
      h("div", { class: "texts-of-answer" }, texts(data)),
      h(
        "div",
        { class: "verdicts-of-answer" },
        compositePanel(data),
        verdictsPanel(evaluation),
        samplingPanel(data),
        labelsPanel(data.labels),
      ),
    ),
  ];
}

function navigation({ neighbours }, route) {
  const { query } = route;
  const step = (id, name, title) =>
    id
      ? h("a", { class: "button small", href: href("answers", id, query), title }, name)
      : h("span", { class: "button small off" }, name);
  return h(
    "div",
    { class: "crumbs" },
    h("a", { href: parentOf(route) }, icon("back"), query.has("alert") ? "Alert" : "Answers"),
    h(
      "span",
      { class: "steps" },
      neighbours.place ? h("span", { class: "muted" }, `${neighbours.place} of ${neighbours.total}`) : null,
      step(neighbours.previous, "Previous", "Previous answer (k)"),
      step(neighbours.next, "Next", "Next answer (j)"),
    ),
  );
}

// Texts

function texts({ texts: logged, texts_note: note, evaluation, spans }) {
  if (!logged) return excerpts(evaluation, note);
  return [
    h("h1", { class: "question text" }, logged.question),
    historyList(logged.history),
    panel("Answer", answerText(logged.answer, spans), spansLegend(spans)),
    logged.reference ? panel("Reference answer", h("div", { class: "text" }, logged.reference)) : null,
    panel("Contexts", contextList(logged.contexts, usefulContexts(evaluation))),
  ];
}

/** The verdicts of the panel on each context, by its index. */
function usefulContexts({ dimensions }) {
  const verdicts = Object.values(dimensions).flatMap(({ contexts }) => contexts ?? []);
  return Object.fromEntries(verdicts.map(({ index, useful }) => [index, useful]));
}

function excerpts({ excerpt }, note) {
  return [
    h("h1", { class: "question text" }, excerpt?.question ?? "The texts are not archived"),
    h("p", { class: "notice" }, format.sentence(note ?? "the texts of this answer are not in the archive")),
    excerpt ? panel("Beginning of the answer", h("div", { class: "text" }, excerpt.answer)) : null,
  ];
}

// The composite

const DIAGNOSES = {
  good: "Good: the contexts suffice, and the answer rests on them.",
  generation: "Generation: the contexts suffice, but the answer is not grounded in them.",
  lucky: "Lucky: the answer is grounded, although the contexts do not suffice.",
  retrieval: "Retrieval: the contexts do not suffice, and the answer is not grounded in them.",
};

function compositePanel({ evaluation, composite_terms: terms, composite_note: note, diagnosis }) {
  const { composite } = evaluation;
  return panel(
    "Composite",
    h(
      "div",
      { class: "composite-head" },
      h("span", { class: `big-score ${format.band(composite.score)}` }, format.score(composite.score)),
      status(composite.status),
      h("span", { class: "muted" }, `coverage ${format.percent(composite.coverage, 0)}`),
    ),
    note ? h("p", {}, format.sentence(note)) : null,
    diagnosis in DIAGNOSES ? h("p", {}, DIAGNOSES[diagnosis]) : null,
    terms.length > 0 ? termsTable(terms) : null,
  );
}

function termsTable(terms) {
  return h(
    "table",
    { class: "terms" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ["Criterion", "Score", "Weight", "Contribution"].map((title, index) =>
          h("th", { scope: "col", class: index > 0 ? "number" : "" }, title),
        ),
      ),
    ),
    h("tbody", {}, terms.map(termRow)),
  );
}

function termRow(term) {
  const about = [term.role !== "quality" ? term.role : null, term.note].filter(Boolean).join(": ");
  return h(
    "tr",
    { key: term.criterion },
    h("th", { scope: "row" }, format.words(term.criterion), about ? h("span", { class: "note" }, about) : null),
    h("td", { class: "number" }, scoreCell(term.score)),
    h("td", { class: "number" }, term.weight === null ? format.NONE : String(Math.round(term.weight * 100) / 100)),
    h("td", { class: "number" }, format.mean(term.share)),
  );
}

// The verdicts

function verdictsPanel({ dimensions }) {
  return panel(
    "Verdicts",
    h(
      "div",
      { class: "criteria" },
      Object.entries(dimensions).map(([name, dimension]) => criterion(name, dimension)),
    ),
  );
}

/** Open unless the score is the best one. */
function criterion(name, dimension) {
  return h(
    "details",
    { key: name, open: dimension.score !== 1 },
    h(
      "summary",
      {},
      h("span", { class: "criterion-name" }, format.words(name)),
      h("span", { class: "option" }, outcome(dimension)),
      scoreCell(dimension.score),
    ),
    dimension.detail ? h("p", { class: "muted" }, dimension.detail) : null,
    dimension.spread >= 0.5
      ? h("p", { class: "differs" }, `The judges differ by ${format.score(dimension.spread)}.`)
      : null,
    h(
      "ul",
      { class: "judge-verdicts" },
      dimension.judges.map((verdict) => judgeVerdict(verdict)),
    ),
  );
}

const outcome = ({ status: name, label, option, reason }) =>
  name === "scored"
    ? (label ?? option ?? "")
    : [format.words(name), reason ? format.words(reason) : null].filter(Boolean).join(": ");

function judgeVerdict(verdict) {
  const details = [
    format.milliseconds(verdict.latency_ms),
    verdict.cost_usd === null || verdict.cost_usd === undefined ? null : format.usd(verdict.cost_usd),
    verdict.samples?.requested > 1 ? `${verdict.samples.valid} of ${verdict.samples.requested} samples` : null,
    verdict.cached ? "cached" : null,
  ].filter(Boolean);
  const warnings = [
    verdict.suspect ? "possible prompt injection" : null,
    verdict.tie ? "tie" : null,
    verdict.position_bias ? "verdict changed with the order of the options" : null,
    verdict.heavily_redacted ? "heavily redacted" : null,
  ].filter(Boolean);
  return h(
    "li",
    { key: verdict.judge },
    h(
      "p",
      { class: "judge-line" },
      h("strong", {}, verdict.judge),
      h("span", {}, outcome(verdict)),
      h("span", { class: "number" }, format.score(verdict.score)),
      h("span", { class: "muted" }, details.join(" · ")),
    ),
    verdict.explanation ? h("p", { class: "explanation text" }, verdict.explanation) : null,
    verdict.detail ? h("p", { class: "muted text" }, verdict.detail) : null,
    verdict.feedback ? h("p", { class: "explanation text" }, `Advice: ${verdict.feedback}`) : null,
    warnings.length > 0 ? h("p", { class: "differs" }, format.capital(warnings.join(", "))) : null,
  );
}

// Source

function samplingPanel({ evaluation, trace_url: traceUrl }) {
  const { sampling, tags } = evaluation;
  return panel(
    "Source",
    facts([
      ["App", evaluation.app ?? "unknown"],
      ["Tenant", evaluation.tenant],
      ["Model", evaluation.model],
      ["Judged", moment(evaluation.evaluated_at, { seconds: true })],
      ["Sampled by", `rule ${sampling.rule}, lane ${sampling.lane}`],
      [
        "Probability",
        `${Number(sampling.probability.toPrecision(3))} (represents ${represented(sampling.probability)})`,
      ],
      ["Cost", format.usd(evaluation.cost_usd)],
      [
        "Trace",
        traceUrl
          ? h("a", { href: traceUrl, target: "_blank", rel: "noopener noreferrer" }, icon("link"), "Open the trace")
          : null,
      ],
      ["Tags", Object.keys(tags ?? {}).length > 0 ? tagLinks(tags) : null],
      ["Interaction", h("code", {}, evaluation.interaction_id)],
      ["Evaluation", h("code", {}, evaluation.evaluation_id)],
      ["Evaluator", h("code", {}, evaluation.evaluator?.fingerprint)],
    ]),
  );
}

const represented = (probability) => (probability === 1 ? "1 answer" : `${Math.round(10 / probability) / 10} answers`);

function tagLinks(tags) {
  return h(
    "span",
    { class: "tags" },
    Object.entries(tags).map(([name, value]) =>
      h("a", { class: "tag", href: href("answers", null, { tag: `${name}:${value}` }) }, `${name}:${value}`),
    ),
  );
}

function labelsPanel(labels) {
  if (labels.length === 0) return null;
  return panel(
    "Labels",
    h(
      "ul",
      { class: "labels" },
      labels.map((label) =>
        h(
          "li",
          { key: label.label_id },
          h("strong", {}, label.option ?? format.score(label.score)),
          ` for ${format.words(label.criterion)} by ${label.who}, `,
          moment(label.at),
          label.comment ? h("p", { class: "text" }, label.comment) : null,
        ),
      ),
    ),
  );
}
