/** Runs the points of figures. The caller gives a function that loads scenarios, and a pool that runs them. */
import {
  type ComparedMix,
  type Goodput,
  type MinGpus,
  type Scenario,
  type SimulationResult,
  type DetailedRun,
  type GoodputBound,
  boundOf,
  compareMix,
  goodput,
  minGpus,
  nonPreemptiveRate,
  randomMix,
  randomMixOfParts,
  simulate,
  simulateDetailed,
} from "@tutti/simulator";
import type { Micros } from "@tutti/units";
import { TimelineRecorder } from "../timeline-recorder.ts";
import { plannedRun } from "./planned-run.ts";
import {
  type Bench,
  type MixPoint,
  type PlannedRun,
  type Point,
  type RecordedRun,
  type Scale,
  type Verb,
  commandOf,
} from "./figure.ts";

/** A pool of runs, usually threads. */
export interface Pool {
  run(scenario: Scenario): Promise<DetailedRun>;
  bound(scenario: Scenario): Promise<GoodputBound>;
  nonPreemptive(scenario: Scenario, clairvoyantRps: number): Promise<number>;
}

export interface BenchOptions {
  readonly scale: Scale;
  /** Reads the scenario of a point; the scale's duration is in it. */
  readonly load: (point: Point & { readonly durationS: number }) => Promise<Scenario>;
  /** Receives many runs at a time. Default: runs are made on this thread, one after the other. */
  readonly pool?: Pool;
  /** Comparisons of random mixes from a run that was stopped, by `keyOf`, and where those that end are put. */
  readonly mixes?: MixStore;
  /** Called as each run ends; every run of a search counts. */
  readonly onRun?: (runs: number) => void;
}

/** A comparison takes as long as some whole figures, so each is kept by itself. */
export interface MixStore {
  get(key: string): ComparedMix | undefined;
  set(key: string, mix: ComparedMix): void;
}

const keyOf = ({ seed, parts, rivals }: MixPoint): string => `${seed} ${parts ? "parts" : "whole"} ${rivals.join(",")}`;

/** Recordings stay on this thread, and only their tallies are drawn. */
const RECORDED = { batchesMax: 0, refusalsMax: 0 };
/**
 * Number of searches in progress at a time: enough to keep every core busy, few enough to have their bounds computed
 * when they are due.
 */
const SEARCHES = 32;

const HERE: Pool = {
  run: (scenario) => Promise.resolve(simulateDetailed(scenario)),
  bound: (scenario) => Promise.resolve(boundOf(scenario)),
  nonPreemptive: (scenario, clairvoyantRps) => Promise.resolve(nonPreemptiveRate(scenario, clairvoyantRps)),
};

export function createBench({ scale, load, pool = HERE, mixes, onRun }: BenchOptions): Bench {
  const known = new Map<string, Promise<unknown>>();
  let runs = 0;
  const run = async (scenario: Scenario): Promise<DetailedRun> => {
    const ended = await pool.run(scenario);
    onRun?.(++runs);
    return ended;
  };
  const turns = limited(SEARCHES);
  const once = <T>(
    kind: string,
    verb: Verb,
    points: readonly Point[],
    work: (scenario: Scenario, point: Point) => Promise<T>,
  ) =>
    Promise.all(
      points.map((point) => {
        const key = `${kind} ${commandOf(verb, point, scale)}`;
        const before = known.get(key) as Promise<T> | undefined;
        if (before !== undefined) return before;
        const answer = turns(async () => work(await load({ durationS: scale.durationS, ...point }), point));
        known.set(key, answer);
        return answer;
      }),
    );
  const arrivals = ({ duration, warmup }: Scenario) => ({ arrivalsMin: (duration - warmup) as Micros });
  return {
    simulate: (points) =>
      once<SimulationResult>("simulate", "simulate", points, async (scenario) => (await run(scenario)).result),
    goodput: (points) =>
      once<Goodput>("goodput", "goodput", points, async (scenario, { precision }) => {
        const bound = await pool.bound(scenario);
        const how = { ...arrivals(scenario), bound, ...(precision !== undefined && { precision: precision / 100 }) };
        return goodput(scenario, run, how);
      }),
    minGpus: (points) =>
      once<MinGpus>("min-gpus", "min-gpus", points, (scenario) => minGpus(scenario, run, arrivals(scenario))),
    record: (points) =>
      once<RecordedRun>("record", "simulate", points, async (scenario) => {
        const recorder = new TimelineRecorder(scenario, RECORDED);
        const result = simulate(scenario, { listener: recorder });
        onRun?.(++runs);
        return { result, recording: recorder.recording() };
      }),
    planned: (points) =>
      once<PlannedRun>("planned", "simulate", points, (scenario) => {
        const run = plannedRun(scenario);
        onRun?.(++runs);
        return Promise.resolve(run);
      }),
    compareMixes: (points) =>
      Promise.all(
        points.map((point) =>
          turns(async () => {
            const { seed, parts, rivals } = point;
            const before = mixes?.get(keyOf(point));
            if (before !== undefined) return before;
            const found = await compareMix(parts ? randomMixOfParts(seed) : randomMix(seed), rivals, {
              run,
              bound: (scenario) => pool.bound(scenario),
              nonPreemptive: (scenario, clairvoyantRps) => pool.nonPreemptive(scenario, clairvoyantRps),
            });
            mixes?.set(keyOf(point), found);
            return found;
          }),
        ),
      ),
  };
}

/** Runs at most `most` of the tasks at a time, in the order of the calls. */
function limited(most: number): <T>(task: () => Promise<T>) => Promise<T> {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async (task) => {
    if (running >= most) await new Promise<void>((resolve) => waiting.push(resolve));
    else running++;
    try {
      return await task();
    } finally {
      const next = waiting.shift();
      if (next === undefined) running--;
      else next();
    }
  };
}
