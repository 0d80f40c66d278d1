/** Answers: a table with filters, worst first. The filters are in the address. */

import * as api from "../api.js";
import { comeBack, remember, takeOpened } from "../answer_list.js";
import { answersTable, empty, heading, icon, select } from "../components.js";
import { h } from "../dom.js";
import * as format from "../format.js";
import { change, currentRoute, href, withParams } from "../router.js";

const PAGE = 50;
const FILTERS = ["q", "app", "model", "tenant", "tag", "criterion", "min", "max", "status", "diagnosis", "disagreement", "lane"];
const NAMES = { q: "text", min: "score from", max: "score to", disagreement: "judges disagree" };
const LANES = ["main", "safety", "canary", "backfill"];
const TYPING_MS = 350;

/** On a phone the filters are folded away. */
let isUnfolded = false;
let typing = null;

export const answers = {
  name: "answers",
  title: "Answers",
  polls: true,
  cached: (context) => comeBack(keyOf(context)),
  load: (context) => comeBack(keyOf(context)) ?? loadFirst(context),
  poll: lookForNew,
  view,
  drawn: placeFocus,
};

const keyOf = ({ query }) => href("answers", null, withParams(query, { focus: null }));

function filterParams({ query }) {
  return Object.fromEntries([...FILTERS, "sort"].map((name) => [name, query.get(name)]));
}

async function loadFirst(context) {
  const { from, to } = context.range;
  const reply = await api.get("/api/answers", { ...filterParams(context), from, to, limit: PAGE }, context.signal);
  // Later pages ask for the same times as the first: the list does not shift while new answers arrive.
  const data = { ...reply, from, to, key: keyOf(context), hasNew: false };
  remember(data.key, data);
  return data;
}

/** Checks whether the list would now begin with another answer; it stays unchanged until the reader reloads it. */
async function lookForNew(context, data) {
  if (context.range.preset === null || data.hasNew) return data;
  const { from, to } = context.range;
  const reply = await api.get("/api/answers", { ...filterParams(context), from, to, limit: 1 }, context.signal);
  const first = reply.answers[0];
  // Not a copy: the reader may have loaded a further page meanwhile.
  data.hasNew = Boolean(first) && !data.answers.some(({ id }) => id === first.id);
  return data;
}

async function loadMore(data, context) {
  const { from, to, next } = data;
  const reply = await api.get("/api/answers", { ...filterParams(context), from, to, limit: PAGE, cursor: next });
  if (data.next !== next) return; // clicked twice
  data.answers.push(...reply.answers);
  data.next = reply.next;
  remember(data.key, data);
  context.redraw();
}

function view(data, context) {
  return [
    heading(
      "Answers",
      h("p", { class: "muted" }, context.query.get("sort") === "newest" ? "newest first" : "worst first"),
      data.hasNew ? h("button", { class: "small", on: { click: () => reload(context) } }, "Show new answers") : null,
    ),
    filterBar(data, context),
    chips(context),
    data.answers.length > 0 ? list(data, context) : emptyState(context),
  ];
}

async function reload(context) {
  remember("", { answers: [] });
  await context.refresh();
  scrollTo(0, 0);
}

function list(data, context) {
  const address = (answer) => href("answers", answer.id, withParams(context.query, { focus: null }));
  const more = data.next
    ? h("button", { on: { click: () => loadMore(data, context) } }, "Load more")
    : h("span", { class: "muted" }, "End of list");
  return [
    answersTable(data.answers, address),
    h(
      "p",
      { class: "pager" },
      more,
      h("span", { class: "muted" }, `${format.plural(data.answers.length, "answer")} shown`),
    ),
  ];
}

function filterBar({ filters }, context) {
  const { query } = context;
  const set = (name) => (value) => apply({ [name]: value });
  const choice = (name, label, options, all = "All") =>
    select({ label, value: query.get(name), options, all, onChange: set(name) });
  return h(
    "div",
    { class: `filters ${isUnfolded ? "unfolded" : ""}`, role: "search", "aria-label": "Filters" },
    searchField(context),
    foldButton(context),
    h(
      "div",
      { class: "fields" },
      choice("app", "App", filters.apps),
      choice("model", "Model", filters.models),
      choice("tenant", "Tenant", filters.tenants),
      choice("status", "Status", filters.statuses),
      choice("diagnosis", "Diagnosis", filters.diagnoses ?? []),
      choice("criterion", "Criterion", filters.criteria, "Composite"),
      scoreField("min", "Score from", context),
      scoreField("max", "to", context),
      textField("tag", "Tag", "name:value", context),
      choice("lane", "Lane", LANES, "Live"),
      select({ label: "Order", value: query.get("sort"), options: ["newest"], all: "worst", onChange: set("sort") }),
      h(
        "label",
        { class: "check" },
        h("input", {
          type: "checkbox",
          checked: query.has("disagreement"),
          on: { change: (event) => set("disagreement")(event.target.checked) },
        }),
        "Judges disagree",
      ),
    ),
  );
}

function foldButton({ query, redraw }) {
  const active = FILTERS.filter((name) => query.has(name) && name !== "q").length;
  const fold = () => {
    isUnfolded = !isUnfolded;
    redraw();
  };
  return h(
    "button",
    { class: "fold", "aria-expanded": String(isUnfolded), on: { click: fold } },
    active > 0 ? `Filters (${active})` : "Filters",
  );
}

function searchField(context) {
  const search = (event) => {
    clearTimeout(typing);
    const text = event.target.value.trim();
    typing = setTimeout(() => isShown() && change({ q: text, focus: null }, { isTyped: true }), TYPING_MS);
  };
  return h(
    "label",
    { class: "search" },
    icon("search"),
    h("span", { class: "hidden" }, "Search questions and answers"),
    h("input", {
      type: "search",
      placeholder: "Search questions and answers",
      value: context.query.get("q") ?? "",
      on: { input: search },
    }),
    h("kbd", { "aria-hidden": "true" }, "/"),
  );
}

function scoreField(name, label, context) {
  return h(
    "label",
    { class: "field narrow" },
    h("span", {}, label),
    h("input", {
      type: "number",
      min: 0,
      max: 1,
      step: 0.05,
      value: context.query.get(name) ?? "",
      placeholder: name === "min" ? "0" : "1",
      on: { change: (event) => apply({ [name]: event.target.value }) },
    }),
  );
}

function textField(name, label, placeholder, context) {
  return h(
    "label",
    { class: "field" },
    h("span", {}, label),
    h("input", {
      type: "text",
      placeholder,
      value: context.query.get(name) ?? "",
      on: { change: (event) => apply({ [name]: event.target.value.trim() }) },
    }),
  );
}

const isShown = () => currentRoute().screen === "answers" && currentRoute().id === null;

const apply = (changes) => change({ ...changes, focus: null });

/** The active filters, each with a button to remove it. */
function chips(context) {
  const { query } = context;
  const active = FILTERS.filter((name) => query.has(name));
  if (active.length === 0) return null;
  const label = (name) => (name === "disagreement" ? NAMES[name] : `${NAMES[name] ?? name}: ${query.get(name)}`);
  const clear = () => apply(Object.fromEntries(active.map((name) => [name, null])));
  return h(
    "ul",
    { class: "chips", "aria-label": "Active filters" },
    active.map((name) =>
      h(
        "li",
        { key: name },
        h(
          "button",
          {
            class: "chip",
            "aria-label": `Remove the filter ${label(name)}`,
            on: { click: () => apply({ [name]: null }) },
          },
          label(name),
          h("span", { "aria-hidden": "true" }, "×"),
        ),
      ),
    ),
    h("li", { key: "" }, h("button", { class: "link", on: { click: clear } }, "Clear all")),
  );
}

function emptyState(context) {
  const { query } = context;
  const hasFilters = FILTERS.some((name) => query.has(name));
  const longer = h(
    "a",
    { class: "button", href: href("answers", null, withParams(query, { range: "7d", from: null, to: null })) },
    "Last 7 days",
  );
  if (!hasFilters)
    return empty(
      "No answers in this range",
      "Answers appear here seconds after they are judged. You can also look further back:",
      longer,
    );
  const clear = () => apply(Object.fromEntries(FILTERS.map((name) => [name, null])));
  return empty(
    "No answers match",
    "Remove a filter, or look further back.",
    h("button", { class: "primary", on: { click: clear } }, "Clear all filters"),
    longer,
  );
}

/** Focuses the row that the reader comes back to, or the search field after `/` on another screen. */
function placeFocus(main, context) {
  const opened = takeOpened();
  if (opened) {
    const row = [...main.querySelectorAll("tbody tr")].find((element) => element.key === opened);
    row?.querySelector(".row-link").focus();
  }
  if (context.query.get("focus") !== "search") return;
  history.replaceState(null, "", keyOf(context));
  main.querySelector("input[type=search]")?.focus();
}
