/**
 * Tutti's own schedulers: production's pure cores in virtual time, behind the port of the simulator.
 *
 * The network: a plan leaves so early that it can start on time although every delay is at its upper end, ±jitter
 * included, as production plans with a high percentile of its measurements. Plans are therefore never late, and jitter
 * costs the same as in production: earlier plans and earlier deadlines. The deadline given to the cores is less d_resp.
 */
import { FifoTable } from "@tutti/collections";
import {
  Cluster,
  type DispatchedBatch,
  type ModelThreadConfig,
  type Policy,
  type RefusalCause,
  type Request,
  asItCame,
} from "@tutti/scheduling";
import { type Instant, type Micros, NEVER, assert, modelNumberOf, threadId } from "@tutti/units";
import { ArrivedRequest, EarlierRequest } from "../scenario/arrived-request.ts";
import { hasCosts } from "../scenario/costs.ts";
import { JOB_TUNING, JobBacklog } from "../scenario/job-backlog.ts";
import { dynamicRunTime, longestOf, percentileProfile } from "../dynamic/dynamic-load.ts";
import { profileOfLoad } from "../dynamic/load-profile.ts";
import { typedModels } from "../parts/accelerator-types.ts";
import { plannedDelays } from "../scenario/network-delays.ts";
import { LearnedPlans } from "./learned-plans.ts";
import { type Noise, NoiseSource, underNoise } from "../scenario/noise.ts";
import type { ScenarioModel } from "../scenario/scenario.ts";
import { WayIn } from "../scenario/way-in.ts";
import type {
  ElasticCluster,
  SimBatch,
  SimClusterOptions,
  SimListener,
  SimRequest,
  SimSlice,
  SlicedCluster,
} from "./simulated-cluster.ts";

/** Bound of a queue, as in production's batchers. */
const QUEUE_MAX = 65_536;
const IN_FLIGHT_MIN = 4_096;

/** Settings of the cores that a policy may choose; the rest comes from the scenario. */
export type Tuning = Partial<
  Omit<ModelThreadConfig, "thread" | "term" | "epoch" | "profile" | "slo" | "ctrl" | "perItem" | "respond">
> & {
  readonly policy: Policy;
  /** Knowledge of dynamic models. Default "percentiles": plan with the 99th percentile of batches' times. */
  readonly knows?: "distributions" | "percentiles";
  /** Steps of requests' costs that are known. Default "all"; "first": none but the SLO, to compare with. */
  readonly steps?: "all" | "first";
};

export class TuttiCluster implements ElasticCluster, SlicedCluster {
  readonly #cluster: Cluster;
  readonly #listener: SimListener;
  readonly #way: WayIn;
  readonly #respond: Micros;
  readonly #knowsSteps: boolean;
  /**
   * Batches that are dispatched and not completed, by accelerator: they complete in the order of dispatch (CLUSTER-2).
   * Empty where the listener has no `dispatched`.
   */
  readonly #onGpu: FifoTable<SimBatch>;
  readonly #backlog: JobBacklog;
  /** Undefined: plans are made with what the scenario says. */
  readonly #learned: LearnedPlans | undefined;
  /** Number of accelerators that are there: the first ones. */
  #gpus: number;
  #batches = 0;
  /** Whether the cores saw only the workload's own requests, so that batches need no translation. */
  #isPlain: boolean;

  constructor(options: SimClusterOptions, tuning: Tuning | ((slo: Micros) => Tuning)) {
    const { models: alike, gpus, types, network, noise, learned, seed, listener } = options;
    const delays = plannedDelays(network);
    // A request with steps may come back as one that aims at a later step.
    this.#isPlain = !alike.some(hasCosts);
    const typed = types && typedModels(options, types);
    const models = typed?.models ?? alike;
    this.#listener = listener;
    this.#way = new WayIn(network);
    this.#respond = delays.respond;
    this.#knowsSteps = typeof tuning === "function" || tuning.steps !== "first";
    this.#gpus = gpus;
    const source = noise && new NoiseSource(noise, { seed, gpus });
    this.#onGpu = new FifoTable(gpus);
    this.#backlog = new JobBacklog(options, delays);
    this.#learned = learned && new LearnedPlans(options, learned.given, source);
    const common = {
      ...({ patience: 1, gather: "target", queueMax: QUEUE_MAX, term: 1, epoch: 1, ...delays } as const),
      guard: 0 as Micros, // virtual timers are never late
      batchesInFlightMax: Math.max(IN_FLIGHT_MIN, 4 * gpus),
    };
    this.#cluster = new Cluster({
      gpus,
      models: [
        ...models.map((model, i) => ({
          ...common,
          ...plannedWith(model, typeof tuning === "function" ? tuning(model.slo) : tuning, noise),
          ...(this.#learned && { profile: this.#learned.given(i) }),
          ...{ thread: threadId(i, 0), slo: model.slo },
          unfit: typed?.unfit[i],
          fastest: typed?.fastest[i],
        })),
        ...this.#backlog.jobs.map(({ thread, profile }) => ({ ...common, ...JOB_TUNING, thread, profile })),
      ],
      ...(typed !== undefined && { ownProfile: typed.ownProfile, typeOf: typed.typeOf }),
      ...((learned !== undefined ||
        source?.delaysRuns === true ||
        models.some((model) => (model.runs ?? model.dynamic) !== undefined)) && {
        runTime: (batch: DispatchedBatch, begin: Instant) => {
          const model = models[modelNumberOf(batch.thread)];
          const alone = model === undefined ? batch.expectedRun : undisturbedRun(model, batch);
          return source?.runTime(batch.grant.gpu, begin, alone) ?? alone;
        },
      }),
      ...(this.#learned && { startDelay: (batch: DispatchedBatch) => this.#learned!.startDelay(batch) }),
      ...(source?.delaysScheduler === true && { heardAt: (at: Instant) => source.heardAt(at) }),
      listener: {
        dispatched: (batch, at) => this.#dispatched(batch, at),
        refused: (request, cause, at) => this.#refused(request, cause, at),
        finished: (batch, begin, end) => this.#finished(batch, begin, end),
      },
    });
    this.#backlog.begin(this.#cluster);
  }

  arrive(request: SimRequest): void {
    const seen = this.#seen(request);
    const at = this.#way.heardAt(request.arrivedAt);
    this.#learn(at);
    this.#cluster.arrive(request.model, seen, at);
  }
  /** Takes the looks at what was learned until that moment. */
  #learn(until: Instant): void {
    const learned = this.#learned;
    if (learned !== undefined) while (learned.nextAt <= until) learned.look(this.#cluster);
  }
  runSlice({ requests, ends, until }: SimSlice): void {
    assert(this.#way.isShort, "slices are for requests that are known when they come");
    const isPlain = this.#respond === 0 && this.#isPlain;
    const seen = isPlain ? requests : requests.slice(0, ends.at(-1)).map((request) => this.#seen(request));
    this.#cluster.runSlice({ requests: seen, ends, until });
  }
  /** A request as the cores see it. */
  #seen(request: SimRequest): Request {
    const { steps } = request;
    const isPlain = this.#respond === 0 && request instanceof ArrivedRequest;
    if (isPlain && (steps === undefined || this.#knowsSteps)) return request;
    this.#isPlain = false;
    return new EarlierRequest(request, this.#respond, this.#knowsSteps ? steps : undefined);
  }
  withdraw(request: SimRequest, at: Instant): boolean {
    this.#learn(at);
    // The cores know it by its number and its deadline.
    return this.#cluster.withdraw(request.model, new EarlierRequest(request, this.#respond), at);
  }
  runUntilIdle(): void {
    if (this.#learned === undefined) return void this.#cluster.runUntilIdle();
    for (let next = this.nextAt(); next !== NEVER; next = this.nextAt()) this.runUntil(next);
  }
  nextAt(): Instant {
    const next = this.#cluster.nextAt();
    const look = this.#learned?.nextAt ?? NEVER;
    return next !== NEVER && look < next ? look : next;
  }
  runUntil(at: Instant): void {
    this.#learn(at);
    this.#cluster.runUntil(at);
  }
  resize(gpus: number, at: Instant): void {
    this.#learn(at);
    for (let gpu = this.#gpus; gpu < gpus; gpu++) this.#cluster.join(gpu, at);
    for (let gpu = this.#gpus - 1; gpu >= gpus; gpu--) this.#cluster.leave(gpu, at);
    this.#gpus = gpus;
  }

  #dispatched(batch: DispatchedBatch, at: Instant): void {
    if (this.#listener.dispatched === undefined || this.#backlog.isOf(batch)) return;
    const { startAt, latest, frontrun, grant } = batch;
    const told = { ...this.#toldOf(batch), plan: { startAt, latest, frontrun, freeAt: grant.freeAt } };
    this.#onGpu.push(grant.gpu, told);
    this.#listener.dispatched(told, at);
  }
  #refused(request: Request, cause: RefusalCause, at: Instant): void {
    this.#listener.refused(originOf(request), cause, at);
  }
  #finished(batch: DispatchedBatch, begin: Instant, end: Instant): void {
    if (this.#backlog.isOf(batch)) return this.#backlog.finished(this.#cluster, batch, begin, end);
    this.#learned?.finished(batch, this.#cluster.now, (end - begin) as Micros);
    const told = this.#onGpu.shift(batch.grant.gpu) ?? this.#toldOf(batch);
    this.#listener.finished(told, begin, end, true);
  }
  #toldOf({ requests, grant }: DispatchedBatch): SimBatch {
    const origins = this.#isPlain ? (requests as unknown as ArrivedRequest[]) : requests.map(originOf);
    return { id: ++this.#batches, model: origins[0]!.model, gpu: grant.gpu, requests: origins };
  }
}

/** Run time of a batch without noise. */
function undisturbedRun(model: ScenarioModel, { requests }: DispatchedBatch): Micros {
  if (model.dynamic === undefined) return (model.runs ?? model.profile).latency(requests.length);
  return dynamicRunTime(model.dynamic, requests.length, longestOf(requests.map(originOf)));
}

/** Profiles to plan with: those of the scenario; for dynamic models, as far as the policy knows them. */
function plannedWith(
  { profile: alone, slo, dynamic }: ScenarioModel,
  { knows, steps: _, ...tuning }: Tuning,
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

function originOf(request: Request): SimRequest {
  const seen = asItCame(request);
  return seen instanceof EarlierRequest ? seen.origin : (seen as ArrivedRequest);
}
