/** Judges an actor's health by its figures, heartbeats and clock. */
import type { AgentAnswered, ProcessState } from "@tutti/protocol";
import { actorToken } from "@tutti/units";
import { tokensOf } from "./targets.ts";
import { type Figures, type HeardActor, latestOf, offsetUs } from "./cluster-view.ts";

/** Five heartbeats at ten a second: peers don't suspect the actor yet, but an operator should know. */
const LATE_BEAT_MS = 500;
const SILENT_MS = 2_000;
/** Length of a turn of the event loop above which timers are late by as much, and requests with them. */
const TURN_US = 100_000;
/** Clock difference beyond what a late heartbeat on a busy machine can explain. */
const SKEW_US = 50_000;
const CLOCK_ERROR_US = 20_000;

/** Figures that rise only when something is wrong, and the text for the operator. */
const TROUBLES: readonly (readonly [figure: string, text: string])[] = [
  ["frameFaults", "malformed messages"],
  ["framesLost", "messages not sent"],
  ["answersLost", "answers lost"],
  ["slowConsumers", "slow consumer"],
  ["standstills", "stood still"],
];

export interface Surroundings {
  readonly silentMs: number;
  /** Median offset of all actors' clocks from ours: the remainder is the actor's own offset. */
  readonly offsetMedianUs: number;
  readonly process: ProcessState | undefined;
}

/** @returns `ok` alone, or everything that is wrong */
export function healthOf(actor: HeardActor, { silentMs, offsetMedianUs, process }: Surroundings): string[] {
  const found: string[] = [];
  const figures = latestOf(actor)?.figures ?? {};
  const overdueMs = silentMs - (actor.beat.every ?? 0) / 1_000;
  if (overdueMs > SILENT_MS) found.push(`silent for ${(silentMs / 1_000).toFixed(0)} s`);
  else if (overdueMs > LATE_BEAT_MS) found.push("late heartbeat");
  const { gpus, role } = actor.beat;
  if (role === "executor" && gpus?.some(({ serving }) => !serving))
    found.push(process?.phase === "parked" ? "draining" : "not serving");
  const skewUs = offsetUs(actor) - offsetMedianUs;
  if (Math.abs(skewUs) > SKEW_US) found.push(`clock skewed by ${Math.round(-skewUs / 1_000)} ms`);
  else if (Math.abs(figures["clockErrorUs"] ?? 0) > CLOCK_ERROR_US) found.push("clock slewing");
  const turnUs = figures["turnMaxUs"] ?? 0;
  if (turnUs > TURN_US) found.push(`event loop ${Math.round(turnUs / 1_000)} ms late`);
  for (const [name, text] of TROUBLES) if (rises(actor, name)) found.push(text);
  const quarantined = figures["quarantined"] ?? 0;
  if (quarantined > 0) found.push(`${quarantined} quarantined`);
  if (latestOf(actor)?.perThread?.some((thread) => thread.figures["delayCapped"] === 1))
    found.push("delays at their cap");
  if (latestOf(actor)?.perThread?.some((thread) => thread.figures["stalled"] === 1))
    found.push("a model answers nothing");
  return found.length === 0 ? ["ok"] : found;
}

/** Compares with the oldest kept report, so that an old fault is not shown for ever. */
function rises({ reports }: HeardActor, name: string): boolean {
  const [first, last] = [reports[0]?.stats.figures, reports.at(-1)?.stats.figures];
  return valueOf(last, name) > valueOf(first, name);
}
const valueOf = (figures: Figures | undefined, name: string): number => figures?.[name] ?? 0;

export function medianOf(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? 0;
}

/** Processes by their actors' ids. */
export const processesByActor = (agents: readonly AgentAnswered[]): ReadonlyMap<string, ProcessState> =>
  new Map(
    agents.flatMap(({ processes }) =>
      processes.flatMap((process) => tokensOf(process).map((actor) => [actor, process] as const)),
    ),
  );

export const processOf = (actor: HeardActor, processes: ReadonlyMap<string, ProcessState>): ProcessState | undefined =>
  processes.get(actorToken(actor.key));
