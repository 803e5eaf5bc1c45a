/** Flags that give a number of seconds. */
import { usageError } from "./failure.ts";

/** Longest time that a flag may give: a day. Timers end at once when they are given more than 24 days. */
const SECONDS_MAX = 86_400;
/** An idle actor sends a heartbeat every second: after so long every living one was heard. */
export const IDLE_BEAT_MS = 1_100;

/** @returns milliseconds. @throws {CommandError} usage: no number, or out of range */
export function secondsOption(
  flag: string,
  text: string,
  { least, most = SECONDS_MAX, why }: { readonly least: number; readonly most?: number; readonly why?: string },
): number {
  const seconds = Number(text);
  if (text.trim() !== "" && seconds >= least && seconds <= most) return seconds * 1_000;
  throw usageError(
    `${flag} ${text}: a number of seconds from ${least} to ${most}${why === undefined ? "" : `: ${why}`}`,
  );
}

/** Reads `--wait`, for which a command listens to actors at most. */
export const waitOption = (text: string): number =>
  secondsOption("--wait", text, { least: IDLE_BEAT_MS / 1_000, why: "an idle actor is heard once a second" });
