/** The systems that take part in a workload, and the settings that each runs with. */
import { type Contestant, familyOf, start } from "./contestants.ts";
import type { Asked } from "./requests.ts";
import type { WorkloadResult } from "./results.ts";
import type { Trials } from "./trials.ts";
import { type Setting, type SystemName, type Workload, isPeer } from "./workloads.ts";

export interface Run {
  readonly folder: string;
  /** Length of a trial. */
  readonly seconds: number;
  readonly tuttiFlags: readonly string[];
  readonly say: (text: string) => void;
  /** Results of earlier workloads with the same model. */
  readonly known: Map<SystemName, Known>;
}

export interface Known {
  readonly goodput: number;
  readonly setting: Setting;
}

export interface Stage extends Run {
  readonly workload: Workload;
  readonly asked: readonly Asked[];
  readonly trials: Trials;
  readonly skipped: Record<string, string>;
  readonly tried: WorkloadResult["tried"][number][];
}

/** Rate of the warm-up, as a share of the rate that the cold system carries. */
const WARM_SHARE = 0.7;

/** A system with one of its settings. */
export interface Entrant {
  readonly name: SystemName;
  readonly setting: Setting;
}

/** @returns why a system can't take part, if it can't */
export function unsupported(name: SystemName, { isBinary }: Pick<Workload, "isBinary">): string | undefined {
  if (!isBinary) return undefined;
  if (name === "tutti") return "binary tensors are tutti-binary's";
  return name === "litserve" || name === "bentoml" ? "it is asked in JSON only" : undefined;
}

/** Settings that a system is tried with; a system without settings has one that it ignores. */
export function settingsOf(name: SystemName, { settings, executors }: Workload): readonly Setting[] {
  if (isPeer(name)) return settings;
  if (name !== "bare" || executors === 1) return settings.slice(0, 1);
  return settings.map((setting) => ({ ...setting, waitMs: 0 }));
}

export function labelOf(name: SystemName, { waitMs, batchMax, latencyMaxSlos }: Setting): string | undefined {
  if (familyOf(name) === "tutti") return undefined;
  const batch = `batch ≤ ${batchMax}`;
  if (name === "bare") return batch;
  return name === "bentoml" ? `latency ≤ ${latencyMaxSlos} SLO, ${batch}` : `wait ${waitMs} ms, ${batch}`;
}

/** Starts the entrants. @returns those that could be started; the others are in the stage's `skipped` */
export async function startAll(stage: Stage, entrants: readonly Entrant[]): Promise<Contestant[]> {
  const contestants: Contestant[] = [];
  const groups = Map.groupBy(entrants, ({ name, setting }) => `${familyOf(name)} ${labelOf(name, setting) ?? ""}`);
  for (const [title, group] of groups) {
    const names = group.map(({ name }) => name);
    const options = { ...stage, setting: group[0]!.setting };
    stage.say(`starts ${title.trim()}`);
    const first = await start(names, options);
    // A busy machine may have let one of the server's own time-outs pass.
    const started = typeof first === "string" ? await start(names, options) : first;
    if (typeof started !== "string") contestants.push(...started);
    else {
      stage.say(`skips ${title.trim()}: ${started}`);
      for (const name of names) stage.skipped[name] = started;
    }
  }
  return contestants;
}

export async function stopAll(contestants: readonly Contestant[]): Promise<void> {
  await Promise.all([...new Set(contestants.map(({ stop }) => stop))].map((stop) => stop()));
}

/** Systems that poll: idle, they take 10 to 30 % of a core from those that are measured beside them. */
const LOUD: readonly SystemName[] = ["litserve", "ray"];

/**
 * Groups of entrants that run at the same time and are measured in turn. Systems that poll run in a group of their own.
 */
export function turnsOf(entrants: readonly Entrant[]): Entrant[][] {
  const quiet = entrants.filter(({ name }) => !LOUD.includes(name));
  const loud = [...Map.groupBy(entrants, ({ name }) => name)].filter(([name]) => LOUD.includes(name));
  return [quiet, ...loud.map(([, own]) => own)].filter((group) => group.length > 0);
}

/**
 * Warms a system up: its code isn't compiled yet, and some servers learn how to batch. @returns about how much it
 * carries cold
 */
export async function warm({ trials, seconds }: Stage, one: Contestant): Promise<number> {
  const cold = await trials.ramp(one, seconds);
  const perSecond = Math.round(WARM_SHARE * cold) + 1;
  await trials.offer(one, { perSecond, seconds, giveUp: "overloaded" });
  return cold;
}
