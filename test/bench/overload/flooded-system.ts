import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { FloodPlan, FloodReport } from "./flood.ts";

const GENERATOR = join(import.meta.dirname, "generator.ts");

export interface Flooded extends FloodReport {
  /** Resident memory of all its processes by second of the flood (phase 1), in MB. */
  readonly memoryMb: readonly number[];
}

/** Milliseconds into the flood at which the pause begins: the system has seen the flood, and nothing has settled. */
const PAUSE_AFTER = 200;

/**
 * Runs a plan against a system and watches its memory meanwhile.
 *
 * @param pauseMs - for so long all of the system's processes are stopped shortly after the flood (phase 1) has begun,
 *   as on a machine whose processors are wanted elsewhere
 */
export async function runFlood(
  url: string,
  plan: FloodPlan,
  pids: () => readonly number[],
  pauseMs = 0,
): Promise<Flooded> {
  const child = spawn(process.execPath, [GENERATOR, url, JSON.stringify(plan)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const memoryMb: number[] = [];
  let report: FloodReport | undefined;
  let phase = -1;
  let pausing: NodeJS.Timeout | undefined;
  let goOn = (): void => undefined;
  const watching = setInterval(() => {
    if (phase === 1) memoryMb.push(pids().reduce((sum, pid) => sum + residentMb(pid), 0));
  }, 1_000);
  createInterface({ input: child.stdout }).on("line", (line) => {
    const said = JSON.parse(line) as { phase?: number; report?: FloodReport };
    if (said.phase === 1 && pauseMs > 0) pausing = setTimeout(() => (goOn = standStill(pids(), pauseMs)), PAUSE_AFTER);
    phase = said.phase ?? phase;
    report = said.report ?? report;
  });
  const [code] = (await once(child, "close")) as [number | null];
  clearInterval(watching);
  clearTimeout(pausing);
  goOn();
  if (report === undefined) throw new Error(`the generator ended with ${code} and without a report`);
  return { ...report, memoryMb };
}

/**
 * Stops the processes (SIGSTOP) for `ms`. @returns a function that ends the pause early. The end of this process does
 * so, too: a stopped process can't be told to leave.
 */
function standStill(pids: readonly number[], ms: number): () => void {
  const goOn = (): void => {
    clearTimeout(timer);
    process.removeListener("exit", goOn).removeListener("SIGINT", leave);
    for (const pid of pids) signal(pid, "SIGCONT");
  };
  const leave = (): void => process.exit(130);
  const timer = setTimeout(goOn, ms);
  process.on("exit", goOn).on("SIGINT", leave);
  for (const pid of pids) signal(pid, "SIGSTOP");
  return goOn;
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It has ended.
  }
}

/** Growth in MB per minute over the last three quarters: growth at the beginning is not yet a leak. */
export function slopePerMinute(memoryMb: readonly number[]): number {
  const later = memoryMb.slice(Math.floor(memoryMb.length / 4));
  if (later.length < 3) return NaN;
  const meanX = (later.length - 1) / 2;
  const meanY = later.reduce((a, b) => a + b, 0) / later.length;
  let [covariance, variance] = [0, 0];
  for (const [x, y] of later.entries()) {
    covariance += (x - meanX) * (y - meanY);
    variance += (x - meanX) ** 2;
  }
  return (60 * covariance) / variance;
}

function residentMb(pid: number): number {
  try {
    const [, pages = "0"] = readFileSync(`/proc/${pid}/statm`, "utf8").split(" ");
    return (Number(pages) * 4_096) / 2 ** 20;
  } catch {
    return 0; // It ended meanwhile.
  }
}
