/** The keyboard: j and k move through rows, Enter opens, Esc goes back, / searches, ? lists the shortcuts. */

import { ask } from "./components.js";
import { h } from "./dom.js";
import { rangeParams } from "./range.js";
import { currentRoute, go, href, parentOf } from "./router.js";

const SHORTCUTS = [
  [
    "Everywhere",
    [
      ["g then o, a, l, j, p, r", "overview, answers, alerts, judges, pipeline, review"],
      ["/", "search answers"],
      ["Esc", "back, or leave a field"],
      ["?", "this list"],
    ],
  ],
  [
    "Tables",
    [
      ["j or ↓, k or ↑", "next or previous row"],
      ["Enter", "open the row"],
    ],
  ],
  [
    "An answer",
    [
      ["j or →, k or ←", "next or previous answer"],
      ["Tab", "next marked sentence"],
    ],
  ],
  [
    "Time strip",
    [
      ["← →", "move an end of the selection"],
      ["Enter", "apply it"],
      ["Esc", "clear it"],
    ],
  ],
  [
    "Review",
    [
      ["1 to 9", "choose a level"],
      ["← → ↑ ↓", "next or previous level"],
      ["Enter", "save and go to the next answer"],
      ["u", "undo the last label"],
      ["c", "write a comment"],
    ],
  ],
];
const PLACES = { o: "overview", a: "answers", l: "alerts", j: "judges", p: "pipeline", r: "review" };

/** Whether the last key was a g; a click cancels it. */
let isGoing = false;

/** @param {HTMLElement} main @param {() => object} screen the screen that is shown */
export function listenForKeys(main, screen) {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.getElementById("dialog").open) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const isUsed = isGoing ? goTo(event.key) : screen()?.key?.(event) || handleKey(event, main);
    if (isUsed) event.preventDefault();
  });
  document.addEventListener("pointerdown", () => {
    isGoing = false;
  });
}

/** Whether keys belong to a field. */
export function isTyping(target) {
  return target.matches("textarea, select, input:not([type=checkbox]):not([type=radio])");
}

function handleKey(event, main) {
  if (event.key === "g") return (isGoing = true);
  if (event.key === "/") return search();
  if (event.key === "?") return showHelp();
  if (event.key === "Escape") return goBack();
  const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
  return step !== undefined && moveRow(main, step);
}

function goTo(key) {
  isGoing = false;
  if (!(key in PLACES)) return false;
  go(href(PLACES[key], null, rangeParams(currentRoute().query)));
  return true;
}

function search() {
  const field = document.querySelector("input[type=search]");
  if (field) field.focus();
  else go(href("answers", null, { ...Object.fromEntries(rangeParams(currentRoute().query)), focus: "search" }));
  return true;
}

function goBack() {
  const route = currentRoute();
  const menu = document.querySelector("details.menu[open]");
  if (menu) menu.open = false;
  else if (route.id !== null) go(parentOf(route));
  else if (route.screen !== "overview") go(href("overview", null, rangeParams(route.query)));
  return true;
}

function moveRow(main, step) {
  const links = [...main.querySelectorAll(".row-link")];
  if (links.length === 0) return false;
  const current = links.findIndex((link) => link.closest("tr, li")?.contains(document.activeElement));
  const next = current < 0 ? (step > 0 ? 0 : links.length - 1) : current + step;
  links[next]?.focus();
  links[next]?.scrollIntoView({ block: "nearest" });
  return true;
}

export function showHelp() {
  const groups = SHORTCUTS.map(([title, keys]) =>
    h(
      "section",
      {},
      h("h3", {}, title),
      h(
        "dl",
        { class: "shortcuts" },
        keys.map(([key, meaning]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, meaning))),
      ),
    ),
  );
  ask({ title: "Keyboard shortcuts", body: groups });
  return true;
}
