import { type Micros, Prng, micros, millis } from "@tutti/units";
import type { CatalogModel } from "../catalog.ts";
import { randomRow } from "../random-row.ts";

/** Enough for every actor on the way to have compiled its code, made its connections and measured its delays. */
const ROUNDS = 40;

export interface OwnRequest {
  readonly model: CatalogModel;
  readonly bucket: number;
  readonly row: Uint8Array;
  readonly slo: Micros;
}
export interface WarmUpOptions {
  /** Sends one request that nobody asked for through the whole system; `done` when it is settled, whatever its outcome. */
  readonly send: (request: OwnRequest, done: () => void) => void;
}

/**
 * The first request on a path pays for connections and for code that is not yet compiled, tens of milliseconds that a deferred batch does not have. So a
 * model that becomes ready gets a few requests of ours first, one after another per bucket.
 */
export class WarmUp {
  readonly #options: WarmUpOptions;
  readonly #warmed = new Set<string>();

  constructor(options: WarmUpOptions) {
    this.#options = options;
  }

  /** Once per model, version and term: after a takeover another batcher and other connections are on the way. */
  begin(model: CatalogModel): void {
    const { spec } = model;
    const id = `${spec.number}/${spec.version}/${model.lease?.term}`;
    if (this.#warmed.has(id)) return;
    for (const known of this.#warmed) if (known.startsWith(`${spec.number}/`)) this.#warmed.delete(known);
    this.#warmed.add(id);
    for (let bucket = 0; bucket < spec.buckets.length; bucket++) this.#round(model, bucket, 0);
  }

  #round(model: CatalogModel, bucket: number, round: number): void {
    const alone = model.status?.profiles[bucket]?.[0]?.latency ?? micros(0);
    // A slow model has time to be cold in: a tenth of a second of rounds is enough.
    if (round >= ROUNDS || round * alone > millis(100)) return;
    const row = randomRow(model.spec, bucket, new Prng(round));
    // Far enough away to be met when everything is cold, near enough not to be deferred for long.
    const slo = micros(alone * 2 + (round < 4 ? millis(100) : millis(10)));
    this.#options.send({ model, bucket, row, slo }, () => this.#round(model, bucket, round + 1));
  }
}
