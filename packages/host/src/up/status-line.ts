import type { GpuLoad, Reading } from "./status-board.ts";

/** Accelerators that are shown individually; the others are counted. */
const GPUS_SHOWN = 16;
const THREADS_SHOWN = 3;
/** A smaller busy share rounds to nothing. */
const IDLE = 0.005;

/**
 * One line for people, for a second or for longer, such as:
 * ` 812 requests · 811 in time, 4.1 ms · 1 refused (OVERLOADED) · batches 7.3 (mlp 7.3) · busy 63 12 0 %`.
 */
export function renderStatus(reading: Reading): string {
  const parts = [
    `${count(reading.requests).padStart(6)} requests${period(reading)}`,
    `${count(reading.inTime)} in time${latency(reading)}${reading.late > 0 ? `, ${count(reading.late)} late` : ""}`,
    `${count(reading.refused)} refused${reasons(reading)}`,
    `batches ${batches(reading)}`,
    busy(reading.gpus),
  ];
  return parts.join(" · ");
}

/** A line of a second needs no period. */
const period = ({ seconds }: Reading): string => (seconds < 1.5 ? "" : ` in ${Math.round(seconds)} s`);
const count = (value: number): string => value.toLocaleString("en-US");
const latency = ({ meanLatencyUs }: Reading): string =>
  meanLatencyUs > 0 ? ` (${(meanLatencyUs / 1000).toFixed(1)} ms)` : "";

function reasons({ reasons }: Reading): string {
  const names = Object.entries(reasons).map(([code, times]) => (times === 1 ? code : `${count(times)} ${code}`));
  return names.length === 0 ? "" : ` (${names.join(", ")})`;
}

const mean = ({ items, batches }: { readonly items: number; readonly batches: number }): string =>
  (items / batches).toFixed(1);

/**
 * Batches by the batchers' figures. Executors report at another moment of the second, so their figures may belong to
 * the next line.
 */
function batches({ threads }: Reading): string {
  const active = threads.filter((thread) => thread.batches > 0);
  if (active.length === 0) return "-";
  const sum = (name: "items" | "batches"): number => active.reduce((total, thread) => total + thread[name], 0);
  const shown = active.slice(0, THREADS_SHOWN).map((thread) => `${thread.name} ${mean(thread)}`);
  const more = active.length > THREADS_SHOWN ? [`${active.length - THREADS_SHOWN} more`] : [];
  return `${mean({ items: sum("items"), batches: sum("batches") })} (${[...shown, ...more].join(", ")})`;
}

/** Busy shares. Under late binding higher ids are idler, so the idle ones at the end could be released. */
function busy(gpus: readonly GpuLoad[]): string {
  if (gpus.length === 0) return "no executor";
  const lastBusy = gpus.findLastIndex((gpu) => gpu.busy >= IDLE);
  const shown = gpus.slice(0, Math.min(GPUS_SHOWN, Math.max(1, lastBusy + 1)));
  const idle = gpus.length - shown.length;
  const shares = shown.map((gpu) => Math.round(gpu.busy * 100)).join(" ");
  if (idle === 0) return `busy ${shares} %`;
  return `busy ${shares} %, ${idle} more ${lastBusy < shown.length ? "idle" : "not shown"}`;
}
