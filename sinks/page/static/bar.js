/** The bar at the top: tabs, time range, freshness of the data, and the account. */

import * as api from "./api.js";
import { icon } from "./components.js";
import { h } from "./dom.js";
import * as format from "./format.js";
import { showHelp } from "./keys.js";
import { PRESETS, rangeParams } from "./range.js";
import { change, href } from "./router.js";

const TABS = [
  ["overview", "Overview"],
  ["answers", "Answers"],
  ["alerts", "Alerts"],
  ["judges", "Judges"],
  ["pipeline", "Pipeline"],
  ["review", "Review"],
];
/** Screens that show one time range. */
const RANGED = new Set(["overview", "answers", "judges"]);

export function bar(page, context) {
  const isSignedIn = page.session.role !== null;
  return h(
    "div",
    { class: "bar" },
    h("a", { class: "brand", href: href("overview", null, rangeParams(context.query)) }, logo(), "Streamjury"),
    isSignedIn ? tabs(page, context) : null,
    h(
      "div",
      { class: "tools" },
      isSignedIn && RANGED.has(context.screen) && context.id === null ? rangePicker(context) : null,
      isSignedIn ? freshness(page, context) : null,
      isSignedIn ? account(page, context) : null,
      h(
        "button",
        {
          class: "quiet",
          title: "Keyboard shortcuts (?)",
          "aria-label": "Keyboard shortcuts",
          on: { click: showHelp },
        },
        "?",
      ),
    ),
  );
}

function logo() {
  return h("span", { class: "logo", "aria-hidden": "true" }, icon("overview"));
}

function tabs(page, context) {
  const tabs = TABS.filter(([name]) => name !== "review" || context.may("reviewer"));
  return h(
    "nav",
    { class: "tabs", "aria-label": "Screens" },
    tabs.map(([name, title]) =>
      h(
        "a",
        {
          key: name,
          href: href(name, null, rangeParams(context.query)),
          "aria-current": context.screen === name ? "page" : null,
        },
        icon(name),
        h("span", {}, title),
        name === "alerts" && page.openAlerts > 0 ? badge(page.openAlerts) : null,
      ),
    ),
  );
}

const badge = (number) => h("span", { class: "badge" }, number, h("span", { class: "hidden" }, " open"));

function rangePicker({ range }) {
  const choose = (event) => {
    const name = event.target.value;
    if (name !== "") change({ range: name, from: null, to: null });
  };
  return h(
    "label",
    { class: "range" },
    h("span", { class: "hidden" }, "Time range"),
    h(
      "select",
      { value: range.preset ?? "", on: { change: choose } },
      range.preset === null
        ? h("option", { value: "" }, `${format.time(range.from)} – ${format.time(range.to)}`)
        : null,
      PRESETS.map(({ name, title }) => h("option", { value: name }, title)),
    ),
  );
}

/** Shows whether the data is live, or since when it is not. Its place and width are fixed: it changes often. */
function freshness(page, { screen, range }) {
  if (page.problem && page.loadedAt) {
    return h(
      "span",
      { class: "fresh stale", role: "status", title: page.problem.message },
      `Offline since ${format.time(page.loadedAt)}`,
    );
  }
  if (!page.screen?.polls) return h("span", { class: "fresh" });
  if (RANGED.has(screen) && range.preset === null) {
    return h("span", { class: "fresh", title: "The selected range is in the past" }, "Fixed range");
  }
  return h("span", { class: "fresh live", title: "Refreshes every 5 seconds" }, "Live");
}

function account(page, context) {
  const { name, role, needs_token: needsToken } = page.session;
  const leave = async () => {
    await api.remove("/api/session");
    context.restart();
  };
  return h(
    "details",
    { class: "menu" },
    h(
      "summary",
      { "aria-label": `Account: ${name}, ${role}` },
      h("span", { class: "avatar" }, (name ?? "?").charAt(0).toUpperCase()),
    ),
    h(
      "div",
      { class: "menu-body" },
      h("p", {}, h("strong", {}, name), h("span", { class: "muted" }, ` ${role}`)),
      context.may("operator") ? h("a", { href: href("log") }, "Audit log") : null,
      needsToken ? h("button", { on: { click: leave } }, "Sign out") : null,
      h("p", { class: "muted small" }, `Streamjury ${page.session.version ?? ""}`),
    ),
  );
}
