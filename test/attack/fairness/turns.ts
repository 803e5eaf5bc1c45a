/** Turns of the attacked process's event loop, as turn-probe.ts writes them down. */
import { readFileSync } from "node:fs";

/** Variable of the environment that names the file. */
export const TURNS_FILE = "TUTTI_ATTACK_TURNS";

/** The turns of a tenth of a second. */
export interface TurnRecord {
  readonly pid: number;
  readonly atMs: number;
  readonly turns: number;
  /** Those longer than 1 ms: their length without the time in which the thread waited for a processor. */
  readonly own: readonly number[];
  readonly wallMsMax: number;
}

export interface Turns {
  readonly turns: number;
  /** Longest one, without what it waited for a processor, and with it. */
  readonly ownMsMax: number;
  readonly wallMsMax: number;
  /** Those longer than TURN_MS, without what they waited, and the share of all time that they took. */
  readonly over: number;
  readonly overShare: number;
}

export const TURN_MS = 5;

/** The turns of a process between two moments (Date.now()). */
export function turnsBetween(file: string, pid: number, fromMs: number, toMs: number): Turns {
  const records = readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as TurnRecord)
    .filter((record) => record.pid === pid && record.atMs >= fromMs && record.atMs <= toMs);
  const own = records.flatMap((record) => record.own);
  const over = own.filter((ms) => ms > TURN_MS);
  return {
    turns: records.reduce((sum, record) => sum + record.turns, 0),
    ownMsMax: Math.max(0, ...own),
    wallMsMax: Math.max(0, ...records.map((record) => record.wallMsMax)),
    over: over.length,
    overShare: over.reduce((sum, ms) => sum + ms, 0) / (toMs - fromMs),
  };
}
