/**
 * Tutti's own schedulers, production's pure cores in virtual time, behind the port of the simulator.
 *
 * The network: a plan leaves so early that it can start on time although every delay is at its upper end, ±jitter
 * included, as production plans with a high percentile of what it measured. Plans are therefore never late, and jitter
 * costs what it costs production: earlier plans and earlier deadlines. The deadline given to the cores is less d_resp.
 */
import { FifoTable } from "@tutti/collections";
import {
  Cluster,
  type DispatchedBatch,
  type ModelThreadConfig,
  type Policy,
  type RefusalCause,
  type Request,
} from "@tutti/scheduling";
import { type Instant, type Micros, micros, modelNumberOf, threadId } from "@tutti/units";
import { ArrivedRequest, EarlierRequest } from "./arrived-request.ts";
import { dynamicRunTime, longestOf, percentileProfile } from "./dynamic/dynamic-load.ts";
import { profileOfLoad } from "./dynamic/load-profile.ts";
import { LatencyTable } from "@tutti/profile";
import { type Noise, NoiseSource, plannedRun } from "./noise.ts";
import type { Network, ScenarioModel } from "./scenario.ts";
import type {
  ElasticCluster,
  SimBatch,
  SimClusterOptions,
  SimListener,
  SimRequest,
  SimSlice,
  SlicedCluster,
} from "./simulated-cluster.ts";

/** As production's batchers bound it. */
const QUEUE_MAX = 65_536;
const IN_FLIGHT_MIN = 4_096;

/** What a policy may set of the cores; the rest comes from the scenario. */
export type Tuning = Partial<
  Omit<ModelThreadConfig, "thread" | "term" | "epoch" | "profile" | "slo" | "ctrl" | "perItem" | "respond">
> & {
  readonly policy: Policy;
  /**
   * Of dynamic models. Default "percentiles": whoever knows no distributions plans with the 99th percentile of batches'
   * times.
   */
  readonly knows?: "distributions" | "percentiles";
};

/** The longest that each delay can take: what is planned with. */
export function plannedDelays({ ctrl, data, respond, jitter }: Network): {
  ctrl: Micros;
  perItem: Micros;
  respond: Micros;
} {
  const longest = (delay: Micros): Micros => micros(Math.ceil(delay * (1 + jitter) - 1e-9));
  return { ctrl: longest(ctrl), perItem: longest(data), respond: longest(respond) };
}

export class TuttiCluster implements ElasticCluster, SlicedCluster {
  readonly #cluster: Cluster;
  readonly #listener: SimListener;
  readonly #arrive: Micros;
  readonly #respond: Micros;
  /**
   * Dispatched and not completed, by accelerator: they complete in the order of dispatch (C2). Empty where nobody hears
   * of dispatches.
   */
  readonly #onGpu: FifoTable<SimBatch>;
  readonly #noise: NoiseSource | undefined;
  /** Accelerators that are there: the first ones. */
  #gpus: number;
  #batches = 0;
  /** The cores saw the workload's own requests and no others, so batches need no translation. */
  #isPlain = true;

  constructor(
    { models, gpus, network, noise, seed, listener }: SimClusterOptions,
    tuning: Tuning | ((slo: Micros) => Tuning),
  ) {
    const delays = plannedDelays(network);
    this.#listener = listener;
    this.#arrive = micros(Math.round((network.arrive ?? 0) * (1 + network.jitter)));
    this.#respond = delays.respond;
    this.#gpus = gpus;
    this.#noise = noise && new NoiseSource(noise, { seed, gpus });
    this.#onGpu = new FifoTable(gpus);
    this.#cluster = new Cluster({
      gpus,
      models: models.map((model, i) => ({
        patience: 1,
        gather: "target",
        guard: 0 as Micros, // virtual timers are never late
        queueMax: QUEUE_MAX,
        batchesInFlightMax: Math.max(IN_FLIGHT_MIN, 4 * gpus),
        ...plannedWith(model, typeof tuning === "function" ? tuning(model.slo) : tuning, noise),
        ...{ thread: threadId(i, 0), term: 1, epoch: 1, slo: model.slo, ...delays },
      })),
      ...((noise !== undefined || models.some(({ runs, dynamic }) => runs !== undefined || dynamic !== undefined)) && {
        runTime: (batch: DispatchedBatch, begin: Instant) => {
          const alone = undisturbedRun(models[modelNumberOf(batch.thread)]!, batch);
          return this.#noise?.runTime(batch.grant.gpu, begin, alone) ?? alone;
        },
      }),
      listener: {
        dispatched: (batch, at) => this.#dispatched(batch, at),
        refused: (request, cause, at) => this.#refused(request, cause, at),
        finished: (batch, begin, end) => this.#finished(batch, begin, end),
      },
    });
  }

  arrive(request: SimRequest): void {
    const seen = this.#seen(request);
    if (this.#noise === undefined) return this.#cluster.arrive(request.model, seen);
    this.#cluster.arrive(request.model, seen, this.#noise.heardAt(seen.arrivedAt));
  }
  runSlice({ requests, ends, until }: SimSlice): void {
    const isPlain = this.#respond === 0 && this.#arrive === 0;
    const seen = isPlain ? requests : requests.slice(0, ends.at(-1)).map((request) => this.#seen(request));
    this.#cluster.runSlice({ requests: seen, ends, until: (until + this.#arrive) as Instant });
  }
  /** What the cores see of it. */
  #seen(request: SimRequest): Request {
    const isPlain = this.#respond === 0 && this.#arrive === 0 && request instanceof ArrivedRequest;
    if (isPlain) return request;
    this.#isPlain = false;
    return new EarlierRequest(request, this.#arrive, this.#respond);
  }
  withdraw(request: SimRequest, at: Instant): boolean {
    // The cores know it by its number and its deadline.
    return this.#cluster.withdraw(request.model, new EarlierRequest(request, this.#arrive, this.#respond), at);
  }
  runUntilIdle(): void {
    this.#cluster.runUntilIdle();
  }
  nextAt(): Instant {
    return this.#cluster.nextAt();
  }
  runUntil(at: Instant): void {
    this.#cluster.runUntil(at);
  }
  resize(gpus: number, at: Instant): void {
    for (let gpu = this.#gpus; gpu < gpus; gpu++) this.#cluster.join(gpu, at);
    for (let gpu = this.#gpus - 1; gpu >= gpus; gpu--) this.#cluster.leave(gpu, at);
    this.#gpus = gpus;
  }

  #dispatched(batch: DispatchedBatch, at: Instant): void {
    if (this.#listener.dispatched === undefined) return;
    const { startAt, latest, frontrun, grant } = batch;
    const told = { ...this.#toldOf(batch), plan: { startAt, latest, frontrun, freeAt: grant.freeAt } };
    this.#onGpu.push(grant.gpu, told);
    this.#listener.dispatched(told, at);
  }
  #refused(request: Request, cause: RefusalCause, at: Instant): void {
    this.#listener.refused(originOf(request), cause, at);
  }
  #finished(batch: DispatchedBatch, begin: Instant, end: Instant): void {
    const told = this.#onGpu.shift(batch.grant.gpu) ?? this.#toldOf(batch);
    this.#listener.finished(told, begin, end, true);
  }
  #toldOf({ requests, grant }: DispatchedBatch): SimBatch {
    const origins = this.#isPlain ? (requests as unknown as ArrivedRequest[]) : requests.map(originOf);
    return { id: ++this.#batches, model: origins[0]!.model, gpu: grant.gpu, requests: origins };
  }
}

/** What a batch takes where nothing disturbs it. */
function undisturbedRun(model: ScenarioModel, { requests }: DispatchedBatch): Micros {
  if (model.dynamic === undefined) return (model.runs ?? model.profile).latency(requests.length);
  return dynamicRunTime(model.dynamic, requests.length, longestOf(requests.map(originOf)));
}

/** Profiles: as the scenario says, and of dynamic models as the policy knows them. */
function plannedWith(
  { profile: alone, slo, dynamic }: ScenarioModel,
  { knows, ...tuning }: Tuning,
  noise: Noise | undefined,
) {
  const profile = underNoise(alone, noise);
  if (dynamic === undefined) return { ...tuning, profile };
  const isAware = knows === "distributions";
  return {
    ...tuning,
    profile: isAware ? profile : percentileProfile(dynamic),
    dynamic: isAware ? profileOfLoad(dynamic, slo) : undefined,
  };
}

/** Runs as they are under noise. */
function underNoise(profile: LatencyTable, noise: Noise | undefined): LatencyTable {
  if (noise?.slow === undefined) return profile;
  const points = profile
    .toPoints()
    .map(({ batchSize, latency }) => ({ batchSize, latency: plannedRun(noise, latency) }));
  return LatencyTable.fromPoints(points, { batchSizeMax: profile.batchSizeMax });
}

const originOf = (request: Request): SimRequest =>
  request instanceof EarlierRequest ? request.origin : (request as ArrivedRequest);
