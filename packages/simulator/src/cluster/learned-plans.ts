/**
 * Plans from learned profiles and delays: production's profiler and the batchers' delay estimators, fed with the
 * simulated runs.
 *
 *   LEARN-1. As in production executors report a second's runs together, the profiler looks once a second and publishes
 *            what moved enough, and batchers look at their delays four times a second. A publication takes no time.
 *   LEARN-2. All accelerators are one executor's: its first runs are not reported.
 *   LEARN-3. A batch could start after the network's delays, within their jitter, and later where its accelerator
 *            stands still; plans know of that only what was measured.
 *   LEARN-4. The guard is what alarms are late by while the scheduler stands still. They are looked at when batches
 *            start, which are moments like any other.
 */
import { LiveProfiles, PullCost, reserve } from "@tutti/actors/measured";
import { LatencyTable, SlidingHistogram, WarmRuns } from "@tutti/profile";
import type { ModelSpec, ModelStatus } from "@tutti/protocol";
import type { Cluster, DispatchedBatch } from "@tutti/scheduling";
import { type Instant, type Micros, Prng, millis, modelNumberOf, seconds } from "@tutti/units";
import { plannedDelays } from "../scenario/network-delays.ts";
import type { NoiseSource } from "../scenario/noise.ts";
import type { Network, ScenarioModel } from "../scenario/scenario.ts";
import type { SimClusterOptions } from "./simulated-cluster.ts";

const LOOK_EVERY = millis(250);
/** Looks at the delays between two at the profiles. */
const PROFILES_EVERY = 4;
/** Production's settings of the profiler (packages/host). */
const PROFILER = { window: seconds(30), overhead: millis(1) };
/**
 * Production's guard: a quantile of its alarms' lateness, and its bound in the first minute (packages/node). Simulated
 * alarms are punctual by themselves, so that production's least, 100 µs, isn't one here.
 */
const GUARD = { quantile: 0.999, window: seconds(10), most: 500 };
const TYPE = "simulated";
const SALT = 0x6c65_6172;

interface Learner {
  /** The profile that was given. */
  readonly given: LatencyTable;
  readonly live: LiveProfiles;
  readonly pullCost: PullCost;
  readonly slo: Micros;
}

export class LearnedPlans {
  /** Moment of the next look. */
  nextAt = LOOK_EVERY as number as Instant;
  readonly #learners: readonly Learner[];
  readonly #network: Network;
  readonly #respond: Micros;
  readonly #gpus: ReadonlyMap<string, number>;
  readonly #prng: Prng;
  readonly #noise: NoiseSource | undefined;
  readonly #warmRuns = new WarmRuns();
  readonly #lateness = new SlidingHistogram(GUARD.window);
  readonly #delays = new Map<DispatchedBatch, Micros>();
  /** Runs since the last look at the profiles. */
  #reports: { readonly model: number; readonly batchSize: number; readonly run: Micros }[] = [];
  #looks = 0;

  constructor(
    { models, gpus, network, seed }: Pick<SimClusterOptions, "models" | "gpus" | "network" | "seed">,
    given: number,
    noise: NoiseSource | undefined,
  ) {
    const { ctrl, perItem, respond } = plannedDelays(network);
    const floors = { ctrl: Math.floor(network.ctrl * (1 - network.jitter)) as Micros, perItem: network.data };
    this.#learners = models.map((model, i) => ({
      given: timesAsLong(model.profile, given),
      live: liveProfiles(model, timesAsLong(model.profile, given), i + 1),
      pullCost: new PullCost({ ...floors, perKilobyte: 0 }, 0, { ctrl, perItem }),
      slo: model.slo,
    }));
    this.#network = network;
    this.#respond = respond;
    this.#gpus = new Map([[TYPE, gpus]]);
    this.#prng = new Prng(new Prng(seed).nextUint32() ^ SALT);
    this.#noise = noise;
  }

  /** Profile that a model is planned with at the beginning. */
  given(model: number): LatencyTable {
    return this.#learners[model]!.given;
  }

  /** Time until a batch that is sent now could start. */
  startDelay(batch: DispatchedBatch): Micros {
    const { ctrl, data, jitter } = this.#network;
    const drawn = (delay: number): number => delay * (1 + jitter * (2 * this.#prng.nextFloat() - 1));
    const { startAt } = batch;
    const heardAt = this.#noise?.heardAt(startAt) ?? startAt;
    this.#lateness.note(batch.grant.sentAt, heardAt - startAt);
    const alone = Math.ceil(drawn(ctrl) + drawn(data) * batch.requests.length - 1e-9) as Micros;
    const delay = this.#noise?.delay(batch.grant.gpu, batch.grant.sentAt, alone) ?? alone;
    this.#delays.set(batch, delay);
    return delay;
  }

  /** @param at - when the schedulers hear of it */
  finished(batch: DispatchedBatch, at: Instant, run: Micros): void {
    const model = modelNumberOf(batch.thread);
    const batchSize = batch.requests.length;
    this.#learners[model]!.pullCost.note(at, batchSize, this.#delays.get(batch)!);
    this.#delays.delete(batch);
    if (this.#warmRuns.count(model, at)) this.#reports.push({ model, batchSize, run });
  }

  /** Looks at what was learned until `nextAt`, and tells the cores what is news. */
  look(cluster: Cluster): void {
    const at = cluster.runBefore(this.nextAt);
    this.nextAt = (this.nextAt + LOOK_EVERY) as Instant;
    if (++this.#looks % PROFILES_EVERY === 0) this.#lookAtProfiles(cluster, at);
    const late = this.#lateness.quantile(at, GUARD.quantile);
    const guard = Math.min(GUARD.most, late) as Micros;
    for (const [i, { pullCost, slo }] of this.#learners.entries()) {
      const ctrl = reserve(pullCost.ctrl(at), slo);
      const perItem = Math.round(pullCost.perItem()) as Micros;
      cluster.change(i, {
        kind: "delays-changed",
        at,
        ctrl,
        perItem,
        respond: this.#respond,
        guard: reserve(guard, slo),
      });
    }
  }

  #lookAtProfiles(cluster: Cluster, at: Instant): void {
    for (const { model, batchSize, run } of this.#reports)
      this.#learners[model]!.live.note(at, { type: TYPE, bucket: 0, batchSize, run });
    this.#reports = [];
    for (const [i, { live }] of this.#learners.entries()) {
      const points = live.news(at, this.#gpus)?.profiles[0];
      if (points !== undefined)
        cluster.change(i, { kind: "profile-changed", at, profile: LatencyTable.fromPoints(points) });
    }
  }
}

function timesAsLong(profile: LatencyTable, factor: number): LatencyTable {
  if (factor === 1) return profile;
  const points = profile.toPoints().map(({ batchSize, latency }) => {
    return { batchSize, latency: Math.max(1, Math.round(factor * latency)) as Micros };
  });
  return LatencyTable.fromPoints(points);
}

function liveProfiles({ name, slo }: ScenarioModel, given: LatencyTable, number: number): LiveProfiles {
  const identity = { name, number, version: "1" };
  const tensors = { inputs: [], outputs: [], constants: [], axes: {}, buckets: [{}] };
  const profiles = [given.toPoints()];
  const { batchSizeMax } = given;
  const spec: ModelSpec = { ...identity, ...tensors, engine: "emulated", slo, batchSizeMax, patience: 1 };
  const measured = { profiles, means: profiles, executorTypes: [TYPE] };
  const status: ModelStatus = { ...identity, ...measured, state: "ready", reason: "" };
  return new LiveProfiles(spec, status, PROFILER);
}
