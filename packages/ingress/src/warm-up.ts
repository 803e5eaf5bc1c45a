import type { Clock, Stop } from "@tutti/ports/clock";
import { type Instant, type Micros, after, micros, millis } from "@tutti/units";
import { type CatalogModel, OwnRequest } from "@tutti/actors/runtime";

/** Enough for every connection on the way to be made and every delay to be measured. */
const ROUNDS = 40;
/** Interval between sends, and the bound of requests that wait for their outcome. */
const TICK = millis(2);
const IN_FLIGHT_MAX = 64;
/** Largest share of the load that a model's accelerators could carry. */
const LOAD_SHARE = 0.4;
/**
 * Least rate of a warmup, in requests a second. A slower model warms up little in the time there is, and would keep a
 * real machine busy.
 */
const RATE_MIN = 200;

/** Bounds of the warmup, over all models of this ingress. */
export interface Warmup {
  readonly perSecond: number;
  readonly time: Micros;
}
export interface WarmUpOptions {
  readonly clock: Clock;
  readonly warmup: Warmup;
  /** Number of accelerators there are now. */
  readonly gpus: () => number;
  /** Sends one warm-up request through the whole system; `done` when it is settled, whatever its outcome. */
  readonly send: (request: OwnRequest, done: () => void) => void;
  /** Another model is warm. */
  readonly onWarm: () => void;
}

/** The warm-up of one bucket. */
interface Rounds {
  readonly model: CatalogModel;
  readonly bucket: number;
  /** Whether no other version or term of the model has begun since. */
  readonly isCurrent: () => boolean;
  readonly done: () => void;
}

/**
 * Warms up models and the path to them. The first requests on a path pay for connections and for code that is not yet
 * compiled, time that a deferred batch does not have. So a model that becomes ready gets a few warm-up requests first,
 * one after another per bucket; and an ingress that starts warms up: V8 optimises a function after hundreds to
 * thousands of calls, and until then every actor on the way takes two to three times the processor time for each
 * message (seen: 1,000 r/s on two cores filled both of them in the first seconds and one after half a minute). A
 * request from outside ends the warmup: live traffic warms the path up itself.
 */
export class WarmUp {
  readonly #options: WarmUpOptions;
  readonly #begun = new Set<string>();
  readonly #warm = new Set<number>();
  readonly #warming: { readonly model: CatalogModel; readonly request: OwnRequest }[] = [];
  #ticking: Stop | undefined;
  #endAt: Instant | undefined;
  #left: number;
  #inFlight = 0;
  /** Requests that the rate allows and that were not yet sent. */
  #due = 0;

  constructor(options: WarmUpOptions) {
    this.#options = options;
    const { perSecond, time } = options.warmup;
    this.#left = Math.floor((perSecond * time) / 1e6);
  }

  /** Number of models that had their warm-up. */
  get warmModels(): number {
    return this.#warm.size;
  }

  /** Runs once per model, version and term: after a takeover another batcher and other connections are on the way. */
  begin(model: CatalogModel): void {
    const { spec } = model;
    const id = idOf(model);
    if (this.#begun.has(id)) return;
    this.#forgetBegun(spec.number);
    this.#begun.add(id);
    let cold = spec.buckets.length;
    const bucketDone = (): void => {
      if (--cold === 0) this.#warmUp(model);
    };
    const isCurrent = (): boolean => this.#begun.has(id);
    for (let bucket = 0; bucket < spec.buckets.length; bucket++)
      this.#round({ model, bucket, isCurrent, done: bucketDone }, 0);
  }

  /**
   * Skips the warm-up of a model that moved during live traffic. Its requests make the new connections, and warm-up
   * requests would only take accelerators from them.
   */
  skip(model: CatalogModel): void {
    const { number } = model.spec;
    this.#forgetBegun(number);
    this.#begun.add(idOf(model));
    this.#drop(number);
    this.#warm.add(number);
    this.#options.onWarm();
  }

  forget(model: CatalogModel): void {
    const { number } = model.spec;
    this.#warm.delete(number);
    this.#forgetBegun(number);
    this.#drop(number);
  }

  #forgetBegun(number: number): void {
    for (const known of this.#begun) if (known.startsWith(`${number}/`)) this.#begun.delete(known);
  }

  /** Ends the warmup for all models. */
  end(): void {
    if (this.#left === 0 && this.#warming.length === 0) return;
    this.#left = 0;
    this.#ticking?.stop();
    this.#ticking = undefined;
    for (const { model } of this.#warming) this.#warm.add(model.spec.number);
    this.#warming.length = 0;
    this.#options.onWarm();
  }

  /** Ends the warmup of an earlier version or term of the model. */
  #drop(number: number): void {
    const at = this.#warming.findIndex(({ model }) => model.spec.number === number);
    if (at >= 0) this.#warming.splice(at, 1);
  }

  #round(rounds: Rounds, round: number): void {
    const { model, bucket } = rounds;
    // Rounds of earlier terms end. A lease that moves often would otherwise have each move load the system for as long
    // as its rounds take.
    if (!rounds.isCurrent()) return;
    const alone = aloneOf(model, bucket);
    // A slow model takes long enough for each round: a tenth of a second of rounds is enough.
    if (round >= ROUNDS || round * alone > millis(100)) return rounds.done();
    // Far enough away to be met when everything is cold, near enough not to be deferred for long.
    const slo = micros(alone * 2 + (round < 4 ? millis(100) : millis(10)));
    this.#options.send(new OwnRequest(model.spec, bucket, slo), () => this.#round(rounds, round + 1));
  }

  #warmUp(model: CatalogModel): void {
    if (this.#left === 0 || this.#rateOf(model) < RATE_MIN) {
      this.#warm.add(model.spec.number);
      this.#options.onWarm();
      return;
    }
    this.#drop(model.spec.number);
    this.#warming.push({ model, request: new OwnRequest(model.spec, 0, model.spec.slo) });
    const { clock, warmup } = this.#options;
    this.#endAt ??= after(clock.now(), warmup.time);
    this.#ticking ??= clock.every(TICK, () => this.#tick());
  }

  /** Serves the models that warm up in turn, so that early and late ones share the requests. */
  #tick(): void {
    if (this.#left <= 0 || this.#options.clock.now() >= this.#endAt!) return this.end();
    const next = this.#warming.shift();
    if (next === undefined) return;
    this.#warming.push(next);
    const { model, request } = next;
    this.#due += (this.#rateOf(model) * TICK) / 1e6;
    for (; this.#due >= 1 && this.#left > 0 && this.#inFlight < IN_FLIGHT_MAX; this.#due--) {
      this.#left--;
      this.#inFlight++;
      this.#options.send(request, () => this.#inFlight--);
    }
    this.#due = Math.min(this.#due, IN_FLIGHT_MAX);
  }

  /** Requests a second of a model's warmup. */
  #rateOf(model: CatalogModel): number {
    const points = model.status?.profiles[0] ?? [];
    const perGpu = points.reduce((best, { batchSize, latency }) => Math.max(best, (batchSize * 1e6) / latency), 0);
    return Math.min(this.#options.warmup.perSecond, LOAD_SHARE * perGpu * this.#options.gpus());
  }
}

const idOf = ({ spec, lease }: CatalogModel): string => `${spec.number}/${spec.version}/${lease?.term}`;
const aloneOf = (model: CatalogModel, bucket: number): number => model.status?.profiles[bucket]?.[0]?.latency ?? 0;
