/**
 * The time strip: the number of answers and their mean over time, and a brush that selects a range.
 *
 * Mouse and touch drag; with the keyboard the strip has two sliders, one for each end of the selection.
 */

import { h, svg } from "./dom.js";
import { domainOf, timeTicks } from "./charts.js";
import * as format from "./format.js";

const WIDTH = 1000;
const HEIGHT = 56;
const LEAST_SHARE = 0.005;

/** The selection while it is dragged or moved by keys, as shares of the strip; null when there is none. */
let draft = null;

/**
 * @param {Array<[string, number, number|null]>} points
 * @param {{from: string, to: string, step: number, selected: {from: string, to: string}|null,
 *   onSelect: (from: string, to: string) => void, onClear: () => void, redraw: () => void}} options
 */
export function strip(points, options) {
  const shares = draft ?? sharesOf(options);
  return h(
    "section",
    { class: "strip", "aria-label": "Time range" },
    h(
      "div",
      { class: "strip-head" },
      h("h2", {}, "Answers over time"),
      h("p", { class: "muted" }, caption(shares, options)),
      options.selected ? h("button", { class: "small", on: { click: options.onClear } }, "Clear selection") : null,
    ),
    h(
      "div",
      { class: "strip-body" },
      h("div", { class: "strip-plot", on: dragHandlers(options) }, drawing(points, options), brush(shares, options)),
      h(
        "div",
        { class: "x-axis", "aria-hidden": "true" },
        timeTicks(options).map((text) => h("span", {}, text)),
      ),
    ),
  );
}

function caption(shares, options) {
  if (!shares) return "Drag to select a time range for the whole page.";
  const [from, to] = timesOf(shares, options);
  const length = format.duration((Date.parse(to) - Date.parse(from)) / 1000);
  return `${format.time(from)} to ${format.time(to)} (${length})`;
}

function drawing(points, options) {
  const [start, end] = [Date.parse(options.from), Date.parse(options.to)];
  const x = (time) => ((Date.parse(time) - start) / (end - start)) * WIDTH;
  const most = Math.max(1, ...points.map(([, n]) => n));
  const step = ((options.step * 1000) / (end - start)) * WIDTH;
  const bars = points
    .filter(([, n]) => n > 0)
    .map(([time, n]) => {
      const height = Math.max(1.5, (n / most) * HEIGHT * 0.45);
      // The last step may reach beyond the end.
      const width = Math.min(step, WIDTH - x(time)) * 0.8;
      return svg("rect", { class: "volume", x: x(time) + width * 0.125, y: HEIGHT - height, width, height });
    });
  const means = points.filter(([, , mean]) => Number.isFinite(mean));
  const [low, high] = domainOf(means.map(([time, , mean]) => [time, mean, mean, mean]));
  // The upper half; the bars have the lower one.
  const y = (mean) => 4 + ((high - mean) / (high - low)) * (HEIGHT * 0.5);
  const line = means.map(
    ([time, , mean], index) => `${index ? "L" : "M"}${Math.min(WIDTH, x(time) + step / 2)} ${y(mean)}`,
  );
  const total = points.reduce((sum, [, n]) => sum + n, 0);
  return svg(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `${format.plural(total, "answer")} from ${format.time(options.from)} to ${format.time(options.to)}`,
    },
    bars,
    line.length === 1
      ? svg("path", { class: "curve single", d: `${line[0]}h0.1` })
      : svg("path", { class: "curve", d: line.join("") }),
  );
}

function brush(shares, options) {
  const [low, high] = shares ?? [0, 1];
  return [
    svg(
      "svg",
      { class: "veil", viewBox: "0 0 1000 1", preserveAspectRatio: "none", "aria-hidden": "true" },
      shares && svg("rect", { class: "outside", x: 0, width: low * WIDTH, height: 1 }),
      shares && svg("rect", { class: "outside", x: high * WIDTH, width: (1 - high) * WIDTH, height: 1 }),
    ),
    handle("start", low, shares, options),
    handle("end", high, shares, options),
  ];
}

function handle(end, share, shares, options) {
  return h("div", {
    class: `handle ${end}${shares ? "" : " idle"}`,
    role: "slider",
    tabindex: 0,
    key: end,
    "aria-label": end === "start" ? "Start of the selected range" : "End of the selected range",
    "aria-valuemin": 0,
    "aria-valuemax": 100,
    "aria-valuenow": Math.round(share * 100),
    "aria-valuetext": format.time(timesOf([share], options)[0]),
    "data-share": share.toFixed(4),
    on: { keydown: (event) => moveByKey(event, end, shares ?? [0, 1], options) },
  });
}

/** Handles are placed after the patch: a strict policy allows no style attributes, only the style object. */
export function placeHandles(root) {
  for (const element of root.querySelectorAll(".strip .handle")) element.style.left = `${element.dataset.share * 100}%`;
}

function moveByKey(event, end, shares, options) {
  const steps = { ArrowLeft: -0.02, ArrowRight: 0.02, PageDown: -0.1, PageUp: 0.1, Home: -1, End: 1 };
  if (event.key === "Enter" && draft) finish(draft, options);
  else if (event.key === "Escape") abandon(options);
  else if (event.key in steps) {
    const [low, high] = shares;
    const move = (share, least, most) => Math.min(most, Math.max(least, share + steps[event.key]));
    draft = end === "start" ? [move(low, 0, high - 0.01), high] : [low, move(high, low + 0.01, 1)];
    options.redraw();
  } else return;
  event.preventDefault();
  event.stopPropagation();
}

function abandon(options) {
  const hadDraft = draft !== null;
  draft = null;
  if (hadDraft) options.redraw();
  else if (options.selected) options.onClear();
}

function dragHandlers(options) {
  const shareAt = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };
  return {
    pointerdown: (event) => {
      if (event.button !== 0) return;
      event.currentTarget.setPointerCapture(event.pointerId);
      event.currentTarget.anchor = anchorFor(event, shareAt(event), sharesOf(options));
    },
    pointermove: (event) => {
      const { anchor } = event.currentTarget;
      if (anchor === undefined) return;
      const share = shareAt(event);
      draft = [Math.min(anchor, share), Math.max(anchor, share)];
      options.redraw();
    },
    pointerup: (event) => {
      event.currentTarget.anchor = undefined;
      if (draft && draft[1] - draft[0] > LEAST_SHARE) finish(draft, options);
      else abandonDrag(options);
    },
    pointercancel: (event) => {
      event.currentTarget.anchor = undefined;
      abandonDrag(options);
    },
  };
}

/** Dragging a handle moves that end: the other end is the anchor. */
function anchorFor(event, share, shares) {
  if (!shares || !event.target.classList.contains("handle")) return share;
  return event.target.classList.contains("start") ? shares[1] : shares[0];
}

function abandonDrag(options) {
  draft = null;
  options.redraw();
}

function finish(shares, options) {
  const [from, to] = timesOf(shares, options);
  draft = null;
  options.onSelect(from, to);
}

function sharesOf({ from, to, selected }) {
  if (!selected) return null;
  const [start, end] = [Date.parse(from), Date.parse(to)];
  const share = (time) => Math.min(1, Math.max(0, (Date.parse(time) - start) / (end - start)));
  return [share(selected.from), share(selected.to)];
}

function timesOf(shares, { from, to }) {
  const [start, end] = [Date.parse(from), Date.parse(to)];
  // Whole seconds: addresses stay short.
  return shares.map((share) => `${new Date(start + share * (end - start)).toISOString().slice(0, 19)}Z`);
}
