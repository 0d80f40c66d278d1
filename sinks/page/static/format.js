/** Numbers, times and names as a reader sees them. Missing values are an en dash. */

export const NONE = "–";

const SECOND = 1000;
const UNITS = [
  ["d", 86400],
  ["h", 3600],
  ["min", 60],
  ["s", 1],
];
/** The lowest score of each band; the same bands as in reports. */
const BANDS = [
  ["excellent", 0.9],
  ["good", 0.75],
  ["fair", 0.5],
  ["poor", 0.3],
  ["bad", -Infinity],
];

const isMissing = (value) => value === null || value === undefined || Number.isNaN(value);

/** A score of one answer: 0.72. */
export const score = (value, digits = 2) => (isMissing(value) ? NONE : value.toFixed(digits));

/** A mean, which has more digits than a single score. */
export const mean = (value) => score(value, 3);

export const percent = (share, digits = 1) => (isMissing(share) ? NONE : `${(share * 100).toFixed(digits)}%`);

/** An interval: 0.79–0.83. */
export const interval = (low, high, show = mean) =>
  isMissing(low) || isMissing(high) ? NONE : `${show(low).replace("%", "")}–${show(high)}`;

/** A count: 1,234, or 1.2M where only its size matters. */
export function count(value) {
  if (isMissing(value)) return NONE;
  if (Math.abs(value) < 100_000) return new Intl.NumberFormat("en").format(Math.round(value));
  return new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value);
}

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

export function usd(value) {
  if (isMissing(value)) return NONE;
  if (value === 0) return "$0";
  if (value < 0.01) return `$${value.toPrecision(2)}`;
  return `$${new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 }).format(value)}`;
}

export function milliseconds(value) {
  if (isMissing(value)) return NONE;
  if (value < 10) return `${value.toFixed(1)} ms`;
  if (value < 1000) return `${Math.round(value)} ms`;
  return `${(value / 1000).toFixed(value < 10_000 ? 1 : 0)} s`;
}

export function bytes(value) {
  if (isMissing(value)) return NONE;
  if (value < 1024) return `${value} B`;
  return value < 1024 * 1024 ? `${(value / 1024).toFixed(1)} KiB` : `${(value / 1024 / 1024).toFixed(1)} MiB`;
}

/** The name of a criterion, status or reason in words: answer_relevance → answer relevance. */
export const words = (name) => (isMissing(name) ? NONE : String(name).replaceAll("_", " "));

/** Sentences of the server begin in lower case and may end without a full stop. */
export function sentence(text) {
  const whole = capital(String(text).trim());
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}

export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

export const band = (value) => (isMissing(value) ? "unscored" : BANDS.find(([, floor]) => value >= floor)[0]);

/** How long: 4 min, 2 h 10 min. */
export function duration(seconds) {
  const at = UNITS.findIndex(([, size]) => seconds >= size);
  if (at < 0) return "0 s";
  const [unit, size] = UNITS[at];
  const whole = Math.floor(seconds / size);
  const rest = UNITS[at + 1];
  const left = rest ? Math.floor((seconds - whole * size) / rest[1]) : 0;
  return left > 0 && at < 2 ? `${whole} ${unit} ${left} ${rest[0]}` : `${whole} ${unit}`;
}

export function ago(iso, now = Date.now()) {
  const seconds = (now - Date.parse(iso)) / SECOND;
  return seconds < 5 ? "just now" : `${duration(seconds)} ago`;
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const SECONDS = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** Local time, with the day unless it is today. */
export function time(iso, { seconds = false } = {}) {
  if (!iso) return NONE;
  const moment = new Date(iso);
  const clock = (seconds ? SECONDS : CLOCK).format(moment);
  return moment.toDateString() === new Date().toDateString() ? clock : `${DAY.format(moment)}, ${clock}`;
}

export const day = (iso) => DAY.format(new Date(iso));
export const clock = (iso) => CLOCK.format(new Date(iso));

/** The time in UTC, as logs and alerts have it. */
export const utc = (iso) => (iso ? `${new Date(iso).toISOString().replace("T", " ").slice(0, 19)} UTC` : "");
