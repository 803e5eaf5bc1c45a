/** Numbers and times as people read them. */

export function figure(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString("en");
  return value >= 10 ? value.toFixed(1).replace(/\.0$/, "") : Number(value.toPrecision(2)).toString();
}

/** @param share - 0 … 1 */
export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined || !Number.isFinite(share)) return "–";
  const value = 100 * share;
  // 99.96 must not read as 100: a reader looks for the one that is bad.
  if (value > 99 && value < 100) return `${(Math.floor(value * 100) / 100).toFixed(2)} %`;
  return `${value >= 10 || value === 0 ? Math.round(value) : value.toFixed(1)} %`;
}

export function milliseconds(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return "–";
  if (ms < 0) return `-${milliseconds(-ms)}`;
  if (ms > 0 && ms < 0.1) return `${Number((1_000 * ms).toPrecision(2))} µs`;
  if (ms >= 10_000) return `${(ms / 1_000).toFixed(0)} s`;
  if (ms >= 1_000) return `${(ms / 1_000).toFixed(1)} s`;
  return `${ms >= 10 ? Math.round(ms) : Number(ms.toPrecision(2))} ms`;
}

export function bytes(count: number | null): string {
  if (count === null) return "–";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let [value, unit] = [count, 0];
  while (value >= 1_000 && unit < units.length - 1) [value, unit] = [value / 1_000, unit + 1];
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toPrecision(2)} ${units[unit]}`;
}

/** Formats an age or an uptime. */
export function duration(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1_000));
  if (s < 120) return `${s} s`;
  if (s < 7_200) return `${Math.floor(s / 60)} min`;
  return s < 172_800 ? `${Math.floor(s / 3_600)} h` : `${Math.floor(s / 86_400)} d`;
}

export const clockTime = (ms: number): string => new Date(ms).toLocaleTimeString("en-GB");

const DAY_MS = 86_400_000;

/**
 * The end of a queue.
 *
 * @param s - seconds until then; null: it stands
 * @param at - now, in ms
 */
export function expectedEnd(s: number | null, at: number): string {
  if (s === null) return "not at this rate";
  if (s === 0) return "–";
  const ms = 1_000 * s;
  return ms < DAY_MS ? `in ${duration(ms)}, ${clockTime(at + ms).slice(0, 5)}` : `in ${duration(ms)}`;
}

export const plural = (count: number, what: string): string =>
  `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;
