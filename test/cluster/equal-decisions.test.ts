/**
 * Sweeps run the pure cores, fault runs run whole actors over messages. Where messages between the actors take no time,
 * both decide the same about every request: its batch, accelerator and start, or why it is refused.
 */
import { VIRTUAL_START } from "@tutti/ports/clock";
import {
  BatchDispatched,
  BatchFinished,
  GpuGranted,
  RequestArrived,
  RequestRefused,
  StatsReported,
  codeOfNumber,
  subjectsOf,
} from "@tutti/protocol";
import { LatencyTable } from "@tutti/profile";
import { type Decision, DecisionRecorder, type Scenario, TuttiCluster, simulate } from "@tutti/simulator";
import { type Instant, type Micros, Prng, micros, millis, modelNumberOf, seconds } from "@tutti/units";
import { FrameReader } from "@tutti/wire";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { Asked } from "./virtual-cluster-options.ts";

/**
 * A grid that keeps timers apart from arrivals. Messages take no time but turns, so at the very microsecond of a timer
 * an arrival comes after it between actors and before it in the cores. Arrivals and SLOs of 1 and run times of 2 beyond
 * a multiple of 16 keep most timers apart from arrivals.
 *
 * The adaptive policy is the remaining difference: its earliness is measured anew every 50 ms at whatever makes a
 * thread look, and actors look more often, since they measure delays. Of 16 seeds 5 have a batch that starts a step of
 * 100 µs earlier for it; the chosen seeds have none. The load is one that no ingress refuses any of.
 */
const GRID = 16;
const MODELS = [
  { name: "resnet50", alphaMs: 1.056, betaMs: 5.074, sloMs: 25.009, batchSizeMax: 32 },
  { name: "inception", alphaMs: 5.088, betaMs: 18.37, sloMs: 70.001, batchSizeMax: 16 },
];
const GPUS = 4;
const NOTHING = micros(0);
type Kind = "adaptive" | "deferred" | "eager";

interface Log {
  readonly asked: readonly (Asked & { readonly model: number })[];
  /** First request from which on decisions are compared. */
  readonly first: number;
  readonly decisions: readonly Decision[];
  readonly guards: readonly Micros[];
}

/** Decisions of whole actors, recorded from their bus. */
function live(kind: Kind, rate: number, seed: number): Log {
  const [rates, prngs] = [[rate, rate / 27], MODELS.map((_, i) => new Prng(seed + i))];
  const noDelay = { hop: NOTHING, dataHop: NOTHING, delayFloors: { ctrl: NOTHING, perItem: 0, perKilobyte: 0 } };
  const cluster = new VirtualCluster({
    gpus: GPUS,
    policy: { kind },
    ...noDelay,
    respondFloor: NOTHING,
    gatherFor: NOTHING,
    aloneShare: 0, // the cores make no isolated runs
  });
  for (const model of MODELS) cluster.addModel(model);
  const decisions: Decision[] = [];
  const tap = tapDecisions(cluster, decisions);
  cluster.run(seconds(2));
  const asked: (Asked & { model: number })[] = [];
  const load = (duration: Micros): void => {
    const end = cluster.clock.now() + duration;
    const streams = MODELS.map((_, i) =>
      arrivals(prngs[i]!, rates[i]!, duration).map((at) => ({ at, model: i })),
    ).flat();
    for (const { at, model } of streams.sort((a, b) => a.at - b.at)) {
      cluster.clock.advanceTo((end - duration + at) as Instant);
      asked.push(Object.assign(cluster.ask(MODELS[model]!.name, { sloMs: MODELS[model]!.sloMs }), { model }));
    }
    cluster.clock.advanceTo(end as Instant);
  };
  load(seconds(6)); // until delays, rates and burstiness are those measured of this load
  cluster.run(seconds(1));
  const first = asked.length;
  load(seconds(2));
  cluster.run(seconds(2));
  return { asked, first, decisions, guards: MODELS.map((_, i) => tap.guardOf(i)) };
}

/** Every batch, refusal and completion as lines of the decision log; requests by their order of arrival. */
function tapDecisions(cluster: VirtualCluster, decisions: Decision[]): { guardOf(model: number): Micros } {
  const subjects = subjectsOf("main");
  const freeAt = new Map<string, Instant>();
  const guards: Micros[] = [];
  const relative = (at: number): number => at - VIRTUAL_START;
  const finite = (at: number): number | null => (Number.isFinite(at) ? relative(at) : null);
  let batches = 0;
  const ids = new Map<number, number>();
  /** Requests in order of arrival: an ingress numbers its own warm-up requests too. */
  const requests = new Map<number, number>();
  const requestOf = (seq: number): number => requests.get(seq) ?? 0;
  const modelOf = (thread: BatchDispatched["thread"]): number => modelNumberOf(thread) - 1;
  const reader = new FrameReader()
    .on(RequestArrived, ({ seq }) => void (cluster.asked.length > 0 && requests.set(seq, requests.size + 1)))
    .on(GpuGranted, (grant) => void freeAt.set(`${grant.gpu}/${grant.grantSeq}`, grant.freeAt))
    .on(BatchDispatched, (batch) => {
      ids.set(batch.batchId, ++batches);
      decisions.push({
        ...{ at: relative(batch.sentAt), event: "dispatch", batch: batches, model: modelOf(batch.thread) },
        gpu: batch.gpu,
        requests: batch.requests.map(({ seq }) => requestOf(seq)),
        plan: {
          start: relative(batch.startAt),
          latest: relative(batch.latest),
          frontrun: finite(batch.frontrun),
          free: finite(freeAt.get(`${batch.gpu}/${batch.grantSeq}`)!),
        },
      });
    })
    .on(RequestRefused, ({ seq, code }) => {
      const cause = codeOfNumber(code) === "TUTTI_OVERLOADED" ? "overloaded" : "infeasible";
      decisions.push({ at: relative(cluster.clock.now()), event: "refuse", request: requestOf(seq), cause });
    })
    .on(BatchFinished, ({ batchId, gpu, startedAt, finishedAt }, sender) => {
      if (!ids.has(batchId)) return; // reported to the profiler once more
      const [start, batch] = [relative(startedAt), ids.get(batchId)!];
      ids.delete(batchId);
      expect(sender).toBeGreaterThan(0);
      decisions.push({ at: relative(finishedAt), event: "finish", batch, gpu, start, completed: true });
    })
    .on(StatsReported, ({ perThread = [] }) => {
      for (const { thread, figures } of perThread) {
        guards[modelOf(thread)] = micros(figures["guardUs"]!);
        if (cluster.asked.length > 0 && figures["finished"]! > 100)
          expect(figures).toMatchObject({ ctrlUs: 0, perItemUs: 0, respondUs: 0 });
      }
    });
  const watch = cluster.network.connect({ name: "tap" });
  watch.subscribe(`${subjects.prefix}.to.*`, ({ payload }) => void reader.read(payload));
  watch.subscribe(subjects.stats("batcher"), ({ payload }) => void reader.read(payload));
  return { guardOf: (model) => guards[model]! };
}

/** Decisions of the cores about the same arrivals. */
function simulated(kind: Kind, { asked, guards }: Log): Decision[] {
  const scenario: Scenario = {
    ...{ seed: 1, duration: seconds(20), warmup: NOTHING, gpus: GPUS, policy: kind, gather: "target", rate: 0 },
    arrivals: {
      process: "trace",
      entries: asked.map(({ at, model }) => ({
        ...{ at: micros(at - VIRTUAL_START), model: MODELS[model]!.name, app: "test", slo: undefined },
      })),
    },
    network: { ctrl: NOTHING, data: NOTHING, respond: NOTHING, jitter: 0 },
    models: MODELS.map(({ name, alphaMs, betaMs, sloMs, batchSizeMax }) => ({
      ...{ name, slo: millis(sloMs), classes: [], share: 1 },
      profile: LatencyTable.affine({ alpha: 1000 * alphaMs, beta: 1000 * betaMs, batchSizeMax }),
    })),
    phases: [],
  };
  const decisions: Decision[] = [];
  simulate(scenario, {
    listener: new DecisionRecorder((decision) => decisions.push(decision)),
    cluster: (options) =>
      new TuttiCluster(options, (slo) => ({
        ...{ policy: { kind }, gather: "target" as const },
        guard: guards[MODELS.findIndex(({ sloMs }) => millis(sloMs) === slo)]!,
      })),
  });
  return decisions;
}

/** From the first compared request on; batches counted from there; one moment's lines in one order. */
function comparable(decisions: readonly Decision[], first: number): string[] {
  const renumbered = new Map<number, number>();
  return decisions
    .flatMap((decision): Decision[] => {
      if (decision.event === "arrive") return [];
      if (decision.event === "refuse") return decision.request > first ? [decision] : [];
      if (decision.event === "dispatch") {
        if (decision.requests[0]! <= first) return [];
        renumbered.set(decision.batch, renumbered.size + 1);
      }
      const batch = renumbered.get(decision.batch);
      if (batch === undefined) return [];
      if (decision.event === "finish") return [{ ...decision, batch }];
      // A heartbeat of an idle accelerator says that it is free now, while the cores remember since when.
      const { free, ...plan } = decision.plan!;
      return [{ ...decision, batch, plan: { ...plan, free: free !== null && free > decision.at ? free : null } }];
    })
    .sort((a, b) => a.at - b.at || a.event.localeCompare(b.event))
    .map((decision) => JSON.stringify(decision));
}

/** Poisson arrivals, in µs from the beginning. */
function arrivals(prng: Prng, rate: number, duration: Micros): number[] {
  const times: number[] = [];
  for (let at = 0; ;) {
    at += GRID * Math.max(1, Math.round(prng.nextExponential((GRID * rate) / 1e6)));
    if (at >= duration) return times;
    times.push(at + 1);
  }
}

test.for([
  ["adaptive", 1_400, 3],
  ["adaptive", 1_400, 4],
  ["adaptive", 1_400, 5],
  ["deferred", 1_600, 1],
  ["deferred", 1_600, 2],
  ["eager", 600, 1],
  ["eager", 600, 2],
] as const)(
  "whole actors with nothing between them decide what the pure cores decide, request by request: %s, %i r/s, seed %i",
  ([kind, rate, seed]) => {
    const log = live(kind, rate, seed);
    const [actors, cores] = [log.decisions, simulated(kind, log)].map((lines) => comparable(lines, log.first));
    expect(actors!.length).toBeGreaterThan(300);
    // All lines differ after the first difference, so show its surroundings.
    const differs = actors!.findIndex((line, i) => line !== cores![i]);
    const around = (lines: readonly string[]): string[] => lines.slice(Math.max(0, differs - 3), differs + 4);
    if (differs >= 0) expect(around(actors!)).toEqual(around(cores!));
    expect(actors!.length).toBe(cores!.length);
  },
);
