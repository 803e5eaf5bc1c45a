/**
 * `tutti up --autoscale 1:4`: starts and drains executors' processes by the planner's advice.
 *
 *   AS1. The number stays between the bounds. An operator's word stands: an executor that an operator drained is left
 *        down, and is not counted, and one that an operator undrained after the autoscaler had drained it is left up.
 *        One that an operator's order is being carried out on is left alone, and counts as what it will be; it may not
 *        serve yet, so none is drained meanwhile.
 *   AS2. An executor is drained, never killed: it finishes accepted batches, and other executors take the rest
 *        (docs/architecture.md, T9). One is drained at a time, the highest first, since those are idle most, and never
 *        the last one of a sub-cluster that has models.
 *   AS3. The advice is a number of accelerators, not a difference: starting executors count, and repeated advice
 *        changes nothing.
 */
import type { ScalingAdvised } from "@tutti/protocol";
import { bringBack, drainProcess } from "./replacement.ts";
import type { PlanWatch } from "./plan-watch.ts";
import type { ChildState, Supervisor } from "./supervisor.ts";

export interface AutoscalerOptions {
  readonly supervisor: Supervisor;
  /**
   * The executors' processes, lowest accelerators first. The first `min` run from the start, and the others are parked.
   */
  readonly names: readonly string[];
  readonly min: number;
  /** Accelerators per process: the first has 0 to gpusEach − 1, and so on. */
  readonly gpusEach: number;
  readonly say: (event: string, text: string, fields: Readonly<Record<string, unknown>>) => void;
  /** Time limits for a process to become ready, and to end. Defaults: 60 s, 12 s. */
  readonly readyMs?: number;
  readonly graceMs?: number;
  /** Delay before a process that failed to start is tried again. Default: 10 s. */
  readonly retryMs?: number;
}

const READY_MS = 60_000;
const GRACE_MS = 12_000;
const RETRY_MS = 10_000;
const ONE_PLACE: Pick<PlanWatch, "isSpare"> = { isSpare: () => true };

/** The number of processes that the advice amounts to. */
export const processesFor = ({ gpus, advice }: Pick<ScalingAdvised, "gpus" | "advice">, gpusEach: number): number =>
  Math.ceil((gpus + advice) / gpusEach - 1e-9);

/**
 * Chooses processes to start or to drain, so that `wanted` of them run, between the bounds. Pure.
 *
 * @param mayStart - whether a parked one may be started that no operator holds down
 * @param isBusy - some are starting or being drained: nothing is drained meanwhile
 * @param isSpare - whether the rest can serve everything without the named process
 */
export function stepTowards(
  wanted: number,
  states: readonly Pick<ChildState, "spec" | "state" | "held" | "order">[],
  { min, mayStart, isBusy, isSpare }: StepOptions,
): { readonly start: readonly string[]; readonly drain: string | undefined } {
  const up = states.filter(({ state, order }) =>
    order === undefined ? state === "starting" || state === "ready" || state === "waiting" : order !== "drain",
  );
  const goal = Math.max(min, Math.min(wanted, states.length));
  const down = states.filter(
    ({ spec, state, held, order }) =>
      state === "parked" && held !== "down" && order === undefined && mayStart(spec.name),
  );
  const namesOf = (chosen: typeof states): string[] => chosen.map(({ spec }) => spec.name);
  if (up.length < goal) return { start: namesOf(down).slice(0, goal - up.length), drain: undefined };
  const free = namesOf(up.filter(({ held }) => held !== "up"));
  const isObeying = states.some(({ order }) => order !== undefined);
  return { start: [], drain: up.length > goal && !isBusy && !isObeying ? free.findLast(isSpare) : undefined };
}

export interface StepOptions {
  readonly min: number;
  readonly mayStart: (name: string) => boolean;
  readonly isBusy: boolean;
  readonly isSpare: (name: string) => boolean;
}

export class Autoscaler {
  readonly #options: AutoscalerOptions;
  readonly #mayStartAt = new Map<string, number>();
  readonly #changing = new Set<string>();
  #closed = false;

  constructor(options: AutoscalerOptions) {
    this.#options = options;
  }

  /** @param plan - the sub-clusters of executors. Default: all in one place */
  hear(advised: ScalingAdvised, plan: Pick<PlanWatch, "isSpare"> = ONE_PLACE): void {
    if (this.#closed || advised.gpus === 0) return;
    const { supervisor, names, min, gpusEach } = this.#options;
    const order = new Map(names.map((name, i) => [name, i]));
    const states = supervisor
      .list()
      .filter(({ spec }) => order.has(spec.name))
      .sort((a, b) => order.get(a.spec.name)! - order.get(b.spec.name)!);
    const now = performance.now();
    const mayStart = (name: string): boolean => !this.#changing.has(name) && now >= (this.#mayStartAt.get(name) ?? 0);
    const wanted = processesFor(advised, gpusEach);
    // Let a starting process finish first: the next advice then includes it.
    const isBusy = this.#changing.size > 0;
    const ready = states.filter(({ state }) => state === "ready").map(({ spec }) => spec.name);
    const gpusOf = (name: string): number[] =>
      Array.from({ length: gpusEach }, (_, gpu) => order.get(name)! * gpusEach + gpu);
    const isSpare = (name: string): boolean =>
      plan.isSpare(gpusOf(name), ready.filter((other) => other !== name).map(gpusOf));
    const { start, drain } = stepTowards(wanted, states, { min, mayStart, isBusy, isSpare });
    for (const name of start) void this.#start(name, wanted);
    if (drain !== undefined) void this.#drain(drain, wanted);
  }

  /** Stops all starting and draining. */
  close(): void {
    this.#closed = true;
  }

  async #start(name: string, wanted: number): Promise<void> {
    const { supervisor, say, readyMs = READY_MS, retryMs = RETRY_MS } = this.#options;
    this.#changing.add(name);
    say("scaling", `${name} starts: ${wanted} executors are needed`, { name, change: "start", wanted });
    let failure: unknown;
    try {
      await bringBack(supervisor, name, { readyMs, report: () => undefined });
    } catch (error) {
      failure = error;
      if (this.#closed) return;
      this.#mayStartAt.set(name, performance.now() + retryMs);
      await this.#park(name);
    }
    this.#changing.delete(name);
    if (failure === undefined) say("scaled", `${name} is ready`, { name, change: "start" });
    else say("scaling-failed", `${name} can't be started: ${String(failure)}`, { name, change: "start" });
  }

  async #drain(name: string, wanted: number): Promise<void> {
    const { say } = this.#options;
    this.#changing.add(name);
    say("scaling", `${name} is drained: ${wanted} executors are enough`, { name, change: "drain", wanted });
    const how = await this.#park(name);
    this.#changing.delete(name);
    say("scaled", how.at(-1) ?? `${name} has ended`, { name, change: "drain" });
  }

  async #park(name: string): Promise<readonly string[]> {
    const { supervisor, readyMs = READY_MS, graceMs = GRACE_MS } = this.#options;
    const said: string[] = [];
    await drainProcess(supervisor, name, { readyMs, graceMs, report: (text) => said.push(text) });
    return said;
  }
}
