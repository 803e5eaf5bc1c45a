/** Figures as people read them. */
const UNITS = ["B", "KB", "MB", "GB", "TB"] as const;

export function bytesText(bytes: number): string {
  if (!Number.isFinite(bytes) || bytes >= Number.MAX_SAFE_INTEGER) return "unbounded memory";
  let [value, unit] = [bytes, 0];
  while (value >= 1_000 && unit < UNITS.length - 1) [value, unit] = [value / 1_000, unit + 1];
  return `${unit === 0 ? value : Number(value.toPrecision(3))} ${UNITS[unit]}`;
}

export const rateText = (rate: number): string => `${Number(rate.toPrecision(rate < 10 ? 2 : 3))} r/s`;
export const gpusText = (gpus: number): string => `${Number(gpus.toPrecision(2))} accelerator${gpus === 1 ? "" : "s"}`;
