/**
 * The judge: outcomes of requests, per (model, SLO class), and the work of the accelerators meanwhile.
 *
 *   J1. A request counts if it arrived within the window: after the warm-up, before the end. It is good if its answer
 *       reaches its publisher by its deadline, bad if it was refused or late.
 *   J2. Batches count if they began within the window; busy time counts as far as it lies in it.
 *   J3. A batch's answers travel for respond ± jitter, one draw a batch.
 */
import { type Instant, Prng, assert } from "@tutti/units";
import { costOf, hasCosts } from "../scenario/costs.ts";
import type { AppResult, CostResult, ModelResult, SimulationResult } from "./result.ts";
import type { Network, Scenario, ScenarioModel } from "../scenario/scenario.ts";
import type { SimBatch, SimJobBatch, SimListener, SimRequest } from "../cluster/simulated-cluster.ts";
import { JobsTally } from "./jobs-tally.ts";
import { StreamTallies, type StreamTally } from "./stream-tallies.ts";
import { TimeCounts } from "../bounds/time-counts.ts";

/** One (model, SLO class): goodput judges each by itself. docs/algorithms.md, A7. */
export type StreamResult = StreamTally;

/** Share of time from which an accelerator counts as used. */
const USED_FROM = 0.01;

export class Judge implements SimListener {
  readonly #scenario: Scenario;
  readonly #window: { readonly from: number; readonly until: number };
  readonly #models: readonly ModelTally[];
  readonly #jobs: JobsTally;
  readonly #streams: StreamTallies;
  readonly #flight: () => number;
  readonly #busy: Float64Array;
  readonly #queueDelays = new TimeCounts();
  /** Batches by size. */
  readonly #sizes = new TimeCounts();
  #items = 0;
  /** Whether results are reported by application. */
  readonly #isByApp: boolean;
  /** Whether costs are reported: some requests have costs in steps. */
  readonly #hasCosts: boolean;
  /** Requests without an outcome, those of the warm-up included: every request that comes in goes out once. */
  #open = 0;

  constructor(scenario: Scenario) {
    this.#scenario = scenario;
    this.#window = { from: scenario.warmup, until: scenario.duration };
    this.#models = scenario.models.map((model) => new ModelTally(model));
    this.#jobs = new JobsTally(scenario);
    this.#isByApp = scenario.models.some(({ dynamic }) => dynamic !== undefined);
    this.#hasCosts = scenario.models.some(hasCosts);
    this.#streams = new StreamTallies(scenario.models.length);
    this.#busy = new Float64Array(scenario.gpus);
    this.#flight = answerFlight(scenario.network, new Prng(scenario.seed).fork());
  }

  arrived(request: SimRequest): void {
    this.#open++;
    if (!this.counts(request.arrivedAt)) return;
    this.#streams.noteOffered(request.model, request.slo);
    if (this.#isByApp) this.#models[request.model]!.noteOffered(request);
  }

  refused(request: SimRequest): void {
    this.#open--;
    if (this.counts(request.arrivedAt)) this.#noteBad(request, Infinity);
  }

  finished(batch: SimBatch, begin: Instant, end: Instant, completed: boolean): void {
    const { from, until } = this.#window;
    const busy = Math.min(end, until) - Math.max(begin, from);
    if (busy > 0) this.#busy[batch.gpu]! += batch.part === undefined ? busy : busy * batch.part.share;
    if (!completed) return;
    const { requests } = batch;
    const tally = this.#models[batch.model]!;
    const answeredAt = end + this.#flight();
    this.#open -= requests.length;
    for (let i = 0; i < requests.length; i++) {
      const request = requests[i]!;
      if (!this.counts(request.arrivedAt)) continue;
      if (answeredAt > request.deadline) this.#noteBad(request, answeredAt);
      tally.answers.note(answeredAt - request.arrivedAt);
      this.#queueDelays.note(begin - request.arrivedAt);
    }
    if (begin < from || begin >= until) return;
    this.#sizes.note(requests.length);
    this.#items += requests.length;
    tally.batches++;
    tally.items += requests.length;
  }

  jobsFinished(batch: SimJobBatch, begin: Instant, end: Instant): void {
    this.#jobs.note(batch, begin, end);
  }

  /** Call it once nothing waits or runs. */
  result(): SimulationResult {
    assert(this.#open === 0, `${this.#open} requests more came in than went out`);
    const { seed, policy, gpus, models } = this.#scenario;
    const seconds = this.#seconds();
    const time = gpus * seconds * 1e6;
    const told = models.map(({ name }, i) => this.#models[i]!.result(name, this.#streams.of(i), seconds));
    const streams = this.streams();
    const offered = sum(streams.map((stream) => stream.offered));
    const bad = sum(streams.map((stream) => stream.bad));
    return {
      seed,
      policy,
      ...shares(offered, bad, seconds),
      ...(this.#hasCosts && { cost: costResult(sum(this.#models.map(({ cost }) => cost)), offered) }),
      gpu: {
        count: gpus,
        used: this.#busy.filter((busy) => busy > USED_FROM * seconds * 1e6).length,
        busyFraction: time > 0 ? sum([...this.#busy]) / time : 0,
      },
      batchSize: {
        mean: this.#sizes.count > 0 ? this.#items / this.#sizes.count : 0,
        p50: this.#sizes.quantile(0.5) || 0,
        p99: this.#sizes.quantile(0.99) || 0,
      },
      queueDelayMs: {
        p50: (this.#queueDelays.quantile(0.5) || 0) / 1000,
        p99: (this.#queueDelays.quantile(0.99) || 0) / 1000,
      },
      models: told,
      ...this.#jobs.result(sum([...this.#busy])),
    };
  }

  streams(): StreamResult[] {
    return this.#streams.all();
  }

  /** @param answeredAt - Infinity: it was refused */
  #noteBad(request: SimRequest, answeredAt: number): void {
    this.#streams.noteBad(request.model, request.slo);
    const cost = this.#hasCosts ? costOf(request, answeredAt) : 0;
    this.#models[request.model]!.cost += cost;
    if (this.#isByApp) this.#models[request.model]!.noteBad(request, cost);
  }
  /** Whether a request counts (J1). */
  counts(arrivedAt: Instant): boolean {
    return arrivedAt >= this.#window.from && arrivedAt < this.#window.until;
  }
  #seconds(): number {
    return Math.max(0, this.#window.until - this.#window.from) / 1e6;
  }
}

class ModelTally {
  readonly answers = new TimeCounts();
  batches = 0;
  items = 0;
  cost = 0;
  readonly #hasCosts: boolean;
  /** Counts by application of a dynamic model; undefined for a static one. */
  readonly #apps: readonly AppTally[] | undefined;

  constructor(model: ScenarioModel) {
    this.#hasCosts = hasCosts(model);
    this.#apps = model.dynamic?.apps.map(({ name }) => ({ name, offered: 0, bad: 0, cost: 0 }));
  }

  noteOffered({ app }: SimRequest): void {
    if (this.#apps !== undefined) this.#apps[app]!.offered++;
  }
  noteBad({ app }: SimRequest, cost: number): void {
    if (this.#apps === undefined) return;
    this.#apps[app]!.bad++;
    this.#apps[app]!.cost += cost;
  }

  result(name: string, streams: readonly StreamTally[], seconds: number): ModelResult {
    const offered = sum(streams.map((stream) => stream.offered));
    const bad = sum(streams.map((stream) => stream.bad));
    const inMillis = (share: number): number | null => {
      const time = this.answers.quantile(share, offered);
      return Number.isFinite(time) ? time / 1000 : null;
    };
    return {
      name,
      ...shares(offered, bad, seconds),
      ...(this.#hasCosts && { cost: costResult(this.cost, offered) }),
      p50Ms: inMillis(0.5),
      p99Ms: inMillis(0.99),
      batchMean: this.batches > 0 ? this.items / this.batches : 0,
      ...(this.#apps !== undefined && { apps: this.#apps.map((app) => appResult(app, seconds, this.#hasCosts)) }),
    };
  }
}

interface AppTally {
  readonly name: string;
  offered: number;
  bad: number;
  cost: number;
}

function appResult({ name, offered, bad, cost }: AppTally, seconds: number, withCosts: boolean): AppResult {
  const rates = shares(offered, bad, seconds);
  return { name, ...rates, finishRate: 1 - rates.badRate, ...(withCosts && { cost: costResult(cost, offered) }) };
}

const costResult = (total: number, offered: number): CostResult => ({
  mean: offered > 0 ? total / offered : 0,
  total,
});

function shares(offered: number, bad: number, seconds: number) {
  return {
    offeredRps: seconds > 0 ? offered / seconds : 0,
    goodRps: seconds > 0 ? (offered - bad) / seconds : 0,
    badRate: offered > 0 ? bad / offered : 0,
  };
}

/** Draws the time that a batch's answers travel. */
function answerFlight({ respond, jitter }: Network, prng: Prng): () => number {
  if (respond === 0 || jitter === 0) return () => respond;
  return () => Math.round(respond * (1 + jitter * (2 * prng.nextFloat() - 1)));
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);
