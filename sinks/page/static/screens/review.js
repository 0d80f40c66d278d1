/** Review: answers to label one by one. The judges' verdicts are shown only after the answer is labelled. */

import * as api from "../api.js";
import { answerText, contextList, historyList } from "../answer_text.js";
import { empty, heading, icon, panel, scoreCell, select } from "../components.js";
import { announce, h } from "../dom.js";
import * as format from "../format.js";
import { change, href } from "../router.js";

/** The reader's choice for the current item. */
let choice = { item: null, level: null, comment: "" };
/** The last saved label, which can be undone. */
let last = null;
let criteria = [];
let problem = null;
let isBusy = false;
let current = null;

export const review = { name: "review", title: "Review", load, view, key: handleKey };

async function load(context) {
  if (!context.may("reviewer")) return { item: null, left: 0 };
  if (criteria.length === 0) {
    const reply = await api.get("/api/answers", { limit: 1 }, context.signal);
    criteria = reply.filters.criteria;
  }
  const data = await api.get("/api/review/next", { criterion: context.query.get("criterion") }, context.signal);
  if (data.item?.evaluation_id !== choice.item)
    choice = { item: data.item?.evaluation_id ?? null, level: null, comment: "" };
  return data;
}

function view(data, context) {
  current = { data, context };
  if (!context.may("reviewer"))
    return empty(
      "Review needs the reviewer role",
      "Your token only allows viewing. Ask an operator for a token with the reviewer role.",
    );
  return [
    heading(
      "Review",
      h("p", { class: "muted" }, `${format.plural(data.left, "answer")} left`),
      select({
        label: "Criterion",
        value: context.query.get("criterion"),
        options: criteria,
        all: "Default",
        onChange: (name) => change({ criterion: name }),
      }),
    ),
    lastLabel(context),
    problem ? h("p", { class: "notice error", role: "alert" }, problem) : null,
    data.item
      ? item(data.item, context)
      : empty(
          "Nothing left to review",
          "New answers join the queue as they are judged. Come back later, or choose another criterion.",
        ),
  ];
}

function item({ texts, criterion, evaluation_id: id }, context) {
  return h(
    "div",
    { class: "columns review-columns", key: id },
    h(
      "div",
      { class: "texts-of-answer" },
      h("h2", { class: "question text" }, texts.question),
      historyList(texts.history),
      panel("Answer", answerText(texts.answer)),
      panel("Contexts", contextList(texts.contexts)),
    ),
    h("div", { class: "decision" }, form(criterion, context)),
  );
}

function form({ name, question, levels }, context) {
  return h(
    "section",
    { class: "panel sticky" },
    h("h2", {}, format.capital(format.words(name))),
    h("p", {}, question),
    h(
      "div",
      { class: "levels", role: "radiogroup", "aria-label": question || name },
      levels.map((level, index) => levelButton(level, index, context)),
    ),
    h(
      "label",
      { class: "field" },
      h("span", {}, "Comment (optional)"),
      h("textarea", {
        rows: 2,
        maxlength: 2000,
        value: choice.comment,
        on: {
          input: (event) => {
            choice.comment = event.target.value;
          },
        },
      }),
    ),
    h(
      "div",
      { class: "actions" },
      h(
        "button",
        { class: "primary", disabled: choice.level === null || isBusy, on: { click: () => save(context) } },
        "Save ",
        h("kbd", {}, "Enter"),
      ),
      h("button", { disabled: !last || isBusy, on: { click: () => undo(context) } }, "Undo ", h("kbd", {}, "u")),
    ),
  );
}

function levelButton({ label }, index, context) {
  const isChosen = choice.level === index;
  return h(
    "button",
    {
      class: "level",
      role: "radio",
      "aria-checked": String(isChosen),
      tabindex: isChosen || (choice.level === null && index === 0) ? 0 : -1,
      key: index,
      on: { click: () => choose(index, context) },
    },
    h("kbd", {}, index + 1),
    h("span", {}, label),
  );
}

function choose(index, context) {
  choice.level = index;
  context.redraw();
  document.querySelectorAll(".levels .level")[index]?.focus();
}

function handleKey(event) {
  if (!current?.data.item) return event.key === "u" && last ? act(() => undo(current.context)) : false;
  const { data, context } = current;
  const { levels } = data.item.criterion;
  const digit = /^[1-9]$/.test(event.key) ? Number(event.key) - 1 : -1;
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (digit >= 0) return digit < levels.length && act(() => choose(digit, context));
  if (step) return act(() => choose(levelAfter(step, levels.length), context));
  if (event.key === "Enter")
    return choice.level !== null && !event.target.matches("a, summary, .actions button") && act(() => save(context));
  if (event.key === "u") return act(() => undo(context));
  if (event.key === "c") return act(() => document.querySelector(".decision textarea")?.focus());
  return false;
}

/** Returns the next or previous level; without a choice, the arrows begin at the first or the last one. */
function levelAfter(step, number) {
  if (choice.level === null) return step > 0 ? 0 : number - 1;
  return Math.min(number - 1, Math.max(0, choice.level + step));
}

/** Does something, and reports that the key was used. */
function act(action) {
  action();
  return true;
}

async function save(context) {
  if (isBusy || choice.level === null) return;
  const { item } = current.data;
  const level = item.criterion.levels[choice.level];
  await busy(context, async () => {
    const body = { evaluation_id: item.evaluation_id, criterion: item.criterion.name, option: level.option };
    if (choice.comment.trim()) body.comment = choice.comment.trim();
    const { label_id: id } = await api.post("/api/labels", body);
    last = { id, level, criterion: item.criterion.name, evaluation: item.evaluation_id, verdict: null };
    choice = { item: null, level: null, comment: "" };
    announce(`Saved: ${level.label}`);
    revealVerdict(context);
  });
}

/** Shows the judges' verdict, now that the answer is labelled. */
async function revealVerdict(context) {
  const label = last;
  try {
    const { evaluation } = await api.get(`/api/answers/${encodeURIComponent(label.evaluation)}`);
    label.verdict = evaluation.dimensions[label.criterion] ?? null;
    context.redraw();
  } catch {
    // The verdict is an extra; the label is saved.
  }
}

async function undo(context) {
  if (isBusy || !last) return;
  await busy(context, async () => {
    await api.remove(`/api/labels/${encodeURIComponent(last.id)}`);
    announce("The last label was undone");
    last = null;
  });
}

async function busy(context, action) {
  isBusy = true;
  problem = null;
  context.redraw();
  try {
    await action();
  } catch (error) {
    problem = error.message;
  }
  isBusy = false;
  await context.refresh();
}

function lastLabel(context) {
  if (!last) return h("p", { class: "last-label muted" }, "The judges' verdicts are hidden until you have answered.");
  const { verdict, level, evaluation } = last;
  return h(
    "p",
    { class: "last-label" },
    icon("ok"),
    h("span", {}, "You said ", h("strong", {}, level.label)),
    verdict
      ? h(
          "span",
          {},
          "the judges said ",
          h("strong", {}, verdict.label ?? verdict.option ?? format.words(verdict.status)),
        )
      : null,
    verdict ? scoreCell(verdict.score) : null,
    h("a", { href: href("answers", evaluation) }, "See that answer"),
    h("button", { class: "link", on: { click: () => undo(context) } }, "Undo"),
  );
}
