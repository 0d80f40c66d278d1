/** The time range that every screen shows: the last hours, or a fixed selection. It travels in the address. */

const MINUTE = 60_000;

export const PRESETS = [
  { name: "15m", label: "15 min", title: "Last 15 minutes", length: 15 * MINUTE },
  { name: "1h", label: "1 h", title: "Last hour", length: 60 * MINUTE },
  { name: "6h", label: "6 h", title: "Last 6 hours", length: 360 * MINUTE },
  { name: "24h", label: "24 h", title: "Last 24 hours", length: 1440 * MINUTE },
  { name: "7d", label: "7 d", title: "Last 7 days", length: 7 * 1440 * MINUTE },
  { name: "30d", label: "30 d", title: "Last 30 days", length: 30 * 1440 * MINUTE },
];
const WIDEST_FIT = "24h";

/** The preset for addresses without a range; `fitTo` makes it smaller where there is little to show. */
let standard = WIDEST_FIT;
let isFitted = false;

const preset = (name) => PRESETS.find((entry) => entry.name === name);
const toIso = (time) => new Date(time).toISOString();

/**
 * Reads the range of an address.
 * @returns {{from: string, to: string, preset: string|null, title: string}}
 */
export function rangeOf(query, now = Date.now()) {
  const from = Date.parse(query.get("from"));
  const to = Date.parse(query.get("to"));
  if (from < to) return { from: toIso(from), to: toIso(to), preset: null, title: "Selected range" };
  const chosen = preset(query.get("range")) ?? preset(standard);
  return { from: toIso(now - chosen.length), to: toIso(now), preset: chosen.name, title: chosen.title };
}

/** The parameters of the range alone, for links to other screens. */
export function rangeParams(query) {
  const kept = new URLSearchParams();
  for (const name of ["range", "from", "to"]) if (query.has(name)) kept.set(name, query.get(name));
  return kept;
}

/**
 * Chooses the smallest preset that shows all there is, once: after the first minutes of a demo, a day would be one bar.
 * @param {Array} strip points of the overview: [time, n, mean]
 * @returns {boolean} whether the range has changed, and the data should be loaded again
 */
export function fitTo(strip, now = Date.now()) {
  const first = strip.find(([, n]) => n > 0);
  if (isFitted || !first) return false;
  const start = Date.parse(first[0]);
  const fitting = PRESETS.find(({ length }) => start >= now - length) ?? preset(WIDEST_FIT);
  const current = preset(standard);
  if (fitting.length < current.length) {
    standard = fitting.name;
    return true;
  }
  isFitted = true;
  return false;
}

/** A wider range around a selection, so that the strip shows where the selection lies. */
export function around({ from, to }) {
  const length = Date.parse(to) - Date.parse(from);
  const end = Math.min(Date.now(), Date.parse(to) + 1.5 * length);
  return { from: toIso(Math.min(Date.parse(from), end - 4 * length)), to: toIso(Math.max(end, Date.parse(to))) };
}
