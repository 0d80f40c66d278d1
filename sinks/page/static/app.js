/**
 * The shell of the page: the session, the current screen, and the reloading of its data.
 *
 * A screen is an object with `title`, `load(context)`, which returns its data, and `view(data, context)`, which returns
 * elements. `polls: true` loads it again every few seconds while the page is visible.
 */

import * as api from "./api.js";
import { bar } from "./bar.js";
import { empty, failed, loading } from "./components.js";
import { h, patchInto } from "./dom.js";
import { listenForKeys } from "./keys.js";
import { rangeOf } from "./range.js";
import { currentRoute } from "./router.js";
import { placeHandles } from "./strip.js";
import { listenForTooltips } from "./tooltip.js";
import { alert } from "./screens/alert.js";
import { alerts } from "./screens/alerts.js";
import { answer } from "./screens/answer.js";
import { answers } from "./screens/answers.js";
import { auditLog } from "./screens/audit_log.js";
import { judges } from "./screens/judges.js";
import { overview } from "./screens/overview.js";
import { pipeline } from "./screens/pipeline.js";
import { review } from "./screens/review.js";
import { signIn } from "./screens/sign_in.js";

const POLL_MS = 5_000;
/** Time before grey lines appear: a fast reply should not flicker. */
const PATIENCE_MS = 200;

const LISTS = { overview, answers, alerts, judges, pipeline, review, log: auditLog };
const SINGLES = { answers: answer, alerts: alert };
const ROLES = ["viewer", "reviewer", "operator"];

const main = document.getElementById("main");
const page = {
  session: null,
  /** The current address and its screen, the data, and when they were loaded. */
  route: null,
  screen: null,
  data: null,
  loadedAt: null,
  problem: null,
  openAlerts: null,
  timer: null,
  aborter: null,
};

function screenFor(route) {
  if (page.session.role === null) return signIn;
  return (route.id === null ? LISTS[route.screen] : SINGLES[route.screen]) ?? null;
}

function contextFor(route, signal) {
  return {
    ...route,
    signal,
    session: page.session,
    range: rangeOf(route.query),
    may: (role) => ROLES.indexOf(page.session.role) >= ROLES.indexOf(role),
    refresh: () => load({ isPoll: false }),
    redraw: draw,
    /** Reads the session again, after signing in or out. */
    restart: start,
    setOpenAlerts: (number) => {
      page.openAlerts = number;
    },
  };
}

/** Shows the screen of the address. */
function show() {
  const route = currentRoute();
  const screen = screenFor(route);
  const isNew = screen !== page.screen || route.id !== page.route?.id;
  Object.assign(page, { route, screen, problem: null });
  if (isNew) {
    page.data = screen?.cached?.(contextFor(route)) ?? null;
    patchInto(main);
    scrollTo(0, 0);
  } else if (page.data !== null) {
    draw(); // show a new filter before its answers arrive
  }
  document.title = screen ? `${screen.title} · Streamjury` : "Streamjury";
  load({ isPoll: false });
}

async function load({ isPoll }) {
  clearTimeout(page.timer);
  page.aborter?.abort();
  const aborter = new AbortController();
  page.aborter = aborter;
  const context = contextFor(page.route, aborter.signal);
  const patience = setTimeout(
    () => page.data === null && !aborter.signal.aborted && patchInto(main, loading()),
    PATIENCE_MS,
  );
  try {
    const data = await loadScreen(context, isPoll);
    if (aborter.signal.aborted) return;
    Object.assign(page, { data, loadedAt: Date.now(), problem: null });
  } catch (error) {
    if (aborter.signal.aborted || error.name === "AbortError") return;
    if (error.status === 401 && page.session.role !== null) return start();
    page.problem = error;
    if (!isPoll || error.status === 404) page.data = null;
    if (!(error instanceof api.ApiError)) console.error(error);
  } finally {
    clearTimeout(patience);
  }
  draw();
  if (page.screen?.polls || page.problem) page.timer = setTimeout(poll, POLL_MS);
}

async function loadScreen(context, isPoll) {
  if (page.screen === null) return {};
  return isPoll && page.screen.poll ? page.screen.poll(context, page.data) : page.screen.load(context, page.data);
}

function poll() {
  // A hidden page requests no data; it does so as soon as it is visible again.
  if (document.visibilityState === "visible") load({ isPoll: true });
}

/** Draws the bar and the screen from the current data. */
function draw() {
  const context = contextFor(page.route, page.aborter?.signal);
  patchInto(document.getElementById("bar"), bar(page, context));
  patchInto(main, body(context));
  placeHandles(main);
  page.screen?.drawn?.(main, context);
}

function body(context) {
  if (page.screen === null) return empty("There is no such page", "Choose a screen from the bar above.");
  if (page.data === null) return page.problem ? failed(page.problem, context.refresh) : loading();
  return h("div", { key: page.screen.name, class: `screen ${page.screen.name}` }, page.screen.view(page.data, context));
}

async function start() {
  try {
    page.session = await api.openSession();
  } catch (error) {
    patchInto(main, failed(error, start));
    setTimeout(start, POLL_MS);
    return;
  }
  page.screen = null;
  show();
}

addEventListener("hashchange", () => page.session && show());
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && page.session && poll());
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
listenForKeys(main, () => page.screen);
listenForTooltips();
start();
