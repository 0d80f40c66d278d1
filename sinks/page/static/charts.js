/** Charts as SVG. They stretch to the width of their box; labels are HTML beside them, so that text never stretches. */

import { h, svg } from "./dom.js";
import * as format from "./format.js";

const WIDTH = 1000;
/** Smallest range of scores that a chart shows: on a smaller scale, means of few answers would look erratic. */
const LEAST_SPAN = 0.25;

/**
 * @typedef {[string, number|null, number|null, number|null]} Point time, mean, and the ends of its interval
 * @typedef {{from: string, to: string}} Range
 */

/** The part of 0..1 that these points need, at least `LEAST_SPAN` of it. */
export function domainOf(points, extra = []) {
  const values = points
    .flatMap(([, mean, low, high]) => [mean, low, high])
    .concat(extra)
    .filter(Number.isFinite);
  if (values.length === 0) return [0, 1];
  const [least, most] = [Math.max(0, Math.min(...values)), Math.min(1, Math.max(...values))];
  const missing = Math.max(0, LEAST_SPAN - (most - least)) / 2;
  const low = Math.max(0, Math.min(least - missing, 1 - LEAST_SPAN));
  return [low, Math.min(1, Math.max(most + missing, low + LEAST_SPAN))];
}

function scales({ from, to }, [low, high], height, margin = 2) {
  const [start, end] = [Date.parse(from), Date.parse(to)];
  return {
    x: (time) => round(((Date.parse(time) - start) / (end - start)) * WIDTH),
    y: (value) =>
      round(height - margin - ((Math.min(1, Math.max(0, value)) - low) / (high - low)) * (height - 2 * margin)),
  };
}

const round = (number) => Math.round(number * 10) / 10;

/** Runs of points without a gap between them: times without scores have no point. */
function runsOf(points) {
  const scored = points.filter(([, mean]) => Number.isFinite(mean));
  const step = stepOf(points);
  const runs = [];
  scored.forEach((point, index) => {
    const isNext = index > 0 && Date.parse(point[0]) - Date.parse(scored[index - 1][0]) < 1.5 * step;
    if (isNext) runs.at(-1).push(point);
    else runs.push([point]);
  });
  return runs;
}

/** The time between two points that follow each other, in milliseconds. */
function stepOf(points) {
  const times = points.map(([time]) => Date.parse(time));
  return Math.min(...times.slice(1).map((time, index) => time - times[index]));
}

function linePath(run, { x, y }) {
  const path = run.map(([time, mean], index) => `${index === 0 ? "M" : "L"}${x(time)} ${y(mean)}`).join("");
  return run.length === 1 ? `${path}h0.1` : path;
}

function bandPath(run, { x, y }) {
  const ends = run.filter(([, , low, high]) => Number.isFinite(low) && Number.isFinite(high));
  if (ends.length < 2) return "";
  const upper = ends.map(([time, , , high]) => `${x(time)} ${y(high)}`);
  const lower = ends.map(([time, , low]) => `${x(time)} ${y(low)}`).reverse();
  return `M${upper.join("L")}L${lower.join("L")}Z`;
}

function curves(points, scale) {
  const runs = runsOf(points);
  const last = runs.at(-1)?.at(-1);
  return [
    runs.map((run) => svg("path", { class: "band", d: bandPath(run, scale) })),
    runs.map((run) => svg("path", { class: run.length === 1 ? "curve single" : "curve", d: linePath(run, scale) })),
    last && svg("path", { class: "last", d: `M${scale.x(last[0])} ${scale.y(last[1])}h0.1` }),
  ];
}

function onsetLine(onset, range, scale, height) {
  if (!onset) return null;
  const x = Math.min(WIDTH, Math.max(0, scale.x(onset)));
  return svg("path", { class: "onset", d: `M${x} 0V${height}` });
}

function frame(height, name, ...children) {
  const box = `0 0 ${WIDTH} ${height}`;
  return svg("svg", { viewBox: box, preserveAspectRatio: "none", role: "img", "aria-label": name }, ...children);
}

/**
 * A small line with its interval band, and a vertical line where an alert began.
 * @param {Point[]} points @param {Range & {onset?: string|null}} options
 */
export function sparkline(points, { from, to, onset = null }) {
  if (points.every(([, mean]) => !Number.isFinite(mean)))
    return h("span", { class: "muted small" }, "No scores in this range");
  const height = 36;
  const scale = scales({ from, to }, domainOf(points), height, 4);
  return h(
    "span",
    { class: "sparkline" },
    frame(height, describe(points, onset), curves(points, scale), onsetLine(onset, { from, to }, scale, height)),
  );
}

function describe(points, onset) {
  const means = points.map(([, mean]) => mean).filter(Number.isFinite);
  if (means.length === 0) return "No scores in this range";
  const [first, last, least] = [means[0], means.at(-1), Math.min(...means)].map(format.mean);
  const trend = `Mean from ${first} to ${last}, lowest ${least}`;
  return onset ? `${trend}; the alert began at ${format.time(onset)}` : trend;
}

/**
 * A chart with axes: the mean with its interval, the target as a dashed line, and the onset of an alert.
 * @param {Point[]} points @param {{onset?: string, target?: number|null, name: string}} options
 */
export function bandChart(points, { onset = null, target = null, name }) {
  if (points.length === 0) return h("p", { class: "muted" }, "The archive has no scores around this alert.");
  const height = 200;
  const range = { from: points[0][0], to: points.at(-1)[0] };
  if (range.from === range.to) range.to = new Date(Date.parse(range.to) + 60_000).toISOString();
  const ticks = ticksOf(domainOf(points, target === null ? [] : [target]));
  const scale = scales(range, [ticks[0], ticks.at(-1)], height, 0);
  const lines = ticks.map((tick) => svg("path", { class: "grid", d: `M0 ${scale.y(tick)}H${WIDTH}` }));
  const goal = target === null ? null : svg("path", { class: "target", d: `M0 ${scale.y(target)}H${WIDTH}` });
  const readout = h("p", { class: "readout", "aria-hidden": "true" }, "\u00a0");
  const drawing = frame(
    height,
    `${name}. ${describe(points, onset)}`,
    lines,
    curves(points, scale),
    goal,
    onsetLine(onset, range, scale, height),
  );
  return h(
    "figure",
    { class: "chart" },
    readout,
    h(
      "div",
      { class: "chart-grid" },
      h(
        "div",
        { class: "y-axis", "aria-hidden": "true" },
        [...ticks].reverse().map((tick) => h("span", {}, tick.toFixed(2))),
      ),
      h("div", { class: "plot", on: readoutHandlers(points, range) }, drawing),
      h(
        "div",
        { class: "x-axis", "aria-hidden": "true" },
        timeTicks(range).map((text) => h("span", {}, text)),
      ),
    ),
    legend({ onset, target }),
  );
}

function legend({ onset, target }) {
  return h(
    "figcaption",
    { class: "legend" },
    h("span", { class: "key mean" }, "mean"),
    h("span", { class: "key interval" }, "95% interval"),
    target === null ? null : h("span", { class: "key target" }, `target ${format.score(target)}`),
    onset ? h("span", { class: "key onset" }, `onset ${format.time(onset)}`) : null,
  );
}

/** Round numbers at equal distances around a domain, four to six of them. */
function ticksOf([low, high]) {
  const step = [0.05, 0.1, 0.2, 0.25].find((size) => (high - low) / size <= 4.5) ?? 0.25;
  const first = Math.floor(round(low * 1000) / 1000 / step + 1e-9);
  const last = Math.max(first + 1, Math.ceil(high / step - 1e-9));
  return Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
}

/** Five times at equal distances; with the day where the range is longer than one. */
export function timeTicks({ from, to }, number = 5) {
  const [start, end] = [Date.parse(from), Date.parse(to)];
  const show = end - start > 36 * 3_600_000 ? format.day : format.clock;
  return Array.from({ length: number }, (_, index) => show(start + ((end - start) * index) / (number - 1)));
}

/** Shows the values under the pointer in the line above the chart. */
function readoutHandlers(points, { from, to }) {
  const scored = points.filter(([, mean]) => Number.isFinite(mean));
  const [start, end] = [Date.parse(from), Date.parse(to)];
  const show = (event, text) => {
    event.currentTarget.closest("figure").querySelector(".readout").textContent = text;
  };
  return {
    pointermove: (event) => {
      const box = event.currentTarget.getBoundingClientRect();
      const time = start + ((event.clientX - box.left) / box.width) * (end - start);
      const nearest = scored.reduce(
        (best, point) => (distance(point, time) < distance(best, time) ? point : best),
        scored[0],
      );
      if (nearest)
        show(
          event,
          `${format.time(nearest[0])} · ${format.mean(nearest[1])} (${format.interval(nearest[2], nearest[3])})`,
        );
    },
    pointerleave: (event) => show(event, "\u00a0"),
  };
}

const distance = ([time], moment) => Math.abs(Date.parse(time) - moment);

/** A bar from 0 to 1 that illustrates the number beside it. */
export function meter(share, kind = "") {
  const width = Number.isFinite(share) ? Math.round(Math.min(1, Math.max(0, share)) * 100) : 0;
  return svg(
    "svg",
    { class: `meter ${kind}`, viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "track", width: 100, height: 6, rx: 1 }),
    svg("rect", { class: "fill", width, height: 6, rx: 1 }),
  );
}

/** An interval on the scale from 0 to 1, with a tick at the mean. */
export function intervalBar({ mean, low, high }) {
  const at = (value) => round(Math.min(1, Math.max(0, value)) * 100);
  return svg(
    "svg",
    { class: "interval-bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "track", y: 3, width: 100, height: 2 }),
    svg("rect", { class: "range", x: at(low), y: 2, width: Math.max(1, at(high) - at(low)), height: 4 }),
    svg("path", { class: "tick", d: `M${at(mean)} 0V8` }),
  );
}
