/**
 * Shadow traffic: runs copies of answered requests on another version too, in idle time, and compares the outputs.
 *
 *   SHADOW-1. Nothing of it is ever sent to a publisher, and no request waits for it: copies run in isolation, in time
 *             that the ranker gives (ISOLATED-1), and are the first to find no room.
 *   SHADOW-2. Only answered requests are copied: the outputs of a copy are compared with those that were sent.
 *   SHADOW-3. Both versions have the same row layout, so that a copy is the very row (T2); otherwise nothing is copied.
 */
import type { RunOutcome } from "@tutti/ports/engine";
import {
  type ModelSpec,
  type PulledItem,
  type ResultItem,
  type RouteShadow,
  type StatsReported,
  publicNameOf,
  stateOf,
  threadOf,
  versionName,
} from "@tutti/protocol";
import type { Store } from "@tutti/ports/store";
import type { Logger } from "@tutti/ports/telemetry";
import { type ActorKey, type Instant, bucketOf } from "@tutti/units";
import { decodeTensors } from "@tutti/wire";
import { type Catalog, type CatalogModel, RouteWatcher } from "@tutti/actors/runtime";
import { rowOfOutput } from "../batches/batch-buffer.ts";
import { compareOutputs } from "./compare-outputs.ts";
import type { Run } from "../batches/run.ts";
import type { ShelfRow } from "./sample-buffer.ts";

export interface ShadowRunsOptions {
  readonly store: Store;
  readonly log: Logger;
  readonly catalog: () => Pick<Catalog, "get">;
  /** Whether the model is loaded here. */
  readonly isLoaded: (model: CatalogModel) => boolean;
  readonly now: () => Instant;
  /** Keeps a row until there is idle time. @returns false if there is no room */
  readonly shelve: (row: ShelfRow) => boolean;
}

/** Bound of the rows copied from running batches, before there is an answer to compare with (T7). */
const PICKED_MAX = 64;
/** Bound of a row, and of its outputs: comparing more would hold up control messages for milliseconds. */
const COPIED_BYTES_MAX = 1_048_576;

/** Counters of one shadow since this executor started. */
interface Tally {
  readonly name: string;
  readonly spec: ModelSpec;
  /** Copies that were made, that ran, that were compared, and that differed or failed. */
  copied: number;
  ran: number;
  compared: number;
  differ: number;
  /** Copies that found no room, or were too large. */
  left: number;
  runUs: number;
  differenceMost: number;
  /** Accumulated share of the next copy; a row is copied when it reaches 1. */
  credit: number;
}

export class ShadowRuns {
  readonly #options: ShadowRunsOptions;
  readonly #routes: RouteWatcher;
  readonly #tallies = new Map<string, Tally>();
  readonly #picked = new Map<Run, Map<string, Uint8Array>>();
  #pickedRows = 0;

  constructor(options: ShadowRunsOptions) {
    this.#options = options;
    this.#routes = new RouteWatcher(options.store, options.log, () => this.#forgetGone());
  }

  open(): void {
    this.#routes.open(() => undefined);
  }
  close(): void {
    this.#routes.close();
  }

  /** Inputs came from an ingress of a batch; they are borrowed. */
  pulled(run: Run, ingress: ActorKey, items: readonly PulledItem[]): void {
    if (this.#routes.size === 0) return;
    const found = this.#shadowOf(run.model.spec);
    if (found === undefined) return;
    const { tally, shadow } = found;
    for (const { seq, row } of items) {
      if (row === undefined) continue;
      tally.credit += shadow.percent / 100;
      if (tally.credit < 1) continue;
      tally.credit -= 1;
      if (this.#pickedRows >= PICKED_MAX || row.byteLength > COPIED_BYTES_MAX) tally.left++;
      else this.#pick(run, `${ingress}/${seq}`, row);
    }
  }

  /** Queues copies of the requests whose outputs an ingress is sent. */
  answered(run: Run, ingress: ActorKey, items: readonly ResultItem[]): void {
    const rows = this.#picked.get(run);
    const found = rows === undefined ? undefined : this.#shadowOf(run.model.spec);
    if (rows === undefined || found === undefined) return;
    for (const { seq, outputs } of items) {
      const bytes = rows.get(`${ingress}/${seq}`);
      if (bytes === undefined || outputs === undefined) continue;
      const isKept = outputs.byteLength <= COPIED_BYTES_MAX && this.#shelve(run, found, bytes, outputs.slice());
      found.tally.copied++;
      if (!isKept) found.tally.left++;
    }
  }

  /** The batch is over. */
  ended(run: Run): void {
    this.#pickedRows -= this.#picked.get(run)?.size ?? 0;
    this.#picked.delete(run);
  }

  /** Figures of each shadow for reports, under its own thread. */
  perThread(): NonNullable<StatsReported["perThread"]> {
    return [...this.#tallies.values()].map(({ name, spec, ...tally }) => ({
      thread: threadOf(spec, 0),
      name,
      figures: {
        shadowCopied: tally.copied,
        shadowRan: tally.ran,
        shadowCompared: tally.compared,
        shadowDiffer: tally.differ,
        shadowLeft: tally.left,
        shadowRunUs: tally.runUs,
        // Figures are finite numbers.
        shadowDifferenceMost: Math.min(tally.differenceMost, Number.MAX_VALUE),
      },
    }));
  }

  #pick(run: Run, key: string, row: Uint8Array): void {
    let rows = this.#picked.get(run);
    if (rows === undefined) this.#picked.set(run, (rows = new Map()));
    if (!rows.has(key)) this.#pickedRows++;
    rows.set(key, new Uint8Array(row)); // a copy: Buffer.slice would share borrowed memory
  }

  #shelve(run: Run, { tally, shadow }: Found, bytes: Uint8Array, expected: Uint8Array): boolean {
    const bucket = bucketOf(run.batch.thread);
    return this.#options.shelve({
      ...{ thread: threadOf(tally.spec, bucket), app: 0, units: 0, bytes, at: this.#options.now() },
      ...{ whole: undefined, isSample: false },
      onOutcome: (outcome, lengths) => this.#compare(tally, shadow, { expected, outcome, lengths }),
    });
  }

  #compare(
    tally: Tally,
    { tolerance }: RouteShadow,
    ran: { readonly expected: Uint8Array; readonly outcome: RunOutcome; readonly lengths: readonly number[] },
  ): void {
    const { expected, outcome, lengths } = ran;
    tally.ran++;
    tally.compared++;
    if (outcome.kind !== "ran" || outcome.failedRows.length > 0) {
      tally.differ++; // The other version could answer it.
      return;
    }
    tally.runUs += outcome.run;
    const outputs = outcome.outputs.map((output) => rowOfOutput(tally.spec, output, { row: 0, batchSize: 1, lengths }));
    const { isEqual, differenceMost } = compareOutputs(decodeTensors(expected), outputs, tolerance);
    if (!isEqual) tally.differ++;
    tally.differenceMost = Math.max(tally.differenceMost, differenceMost);
  }

  /** The shadow of this model, which gets copies of its requests; undefined: none. */
  #shadowOf(spec: ModelSpec): Found | undefined {
    const name = publicNameOf(spec.name);
    const route = this.#routes.get(name);
    const shadow = route === undefined ? undefined : stateOf(route).shadow;
    if (shadow === undefined || shadow.version === spec.version) return undefined;
    const catalog = this.#options.catalog();
    const first = catalog.get(name);
    const model = first?.spec.version === shadow.version ? first : catalog.get(versionName(name, shadow.version));
    if (model?.status?.state !== "ready" || !this.#options.isLoaded(model)) return undefined;
    let tally = this.#tallies.get(name);
    if (tally === undefined || tally.spec.number !== model.spec.number) {
      const zero = { copied: 0, ran: 0, compared: 0, differ: 0, left: 0, runUs: 0, differenceMost: 0, credit: 0 };
      this.#tallies.set(name, (tally = { name: model.spec.name, spec: model.spec, ...zero }));
    }
    return isSameLayout(spec, tally.spec) ? { tally, shadow } : undefined; // SHADOW-3
  }

  #forgetGone(): void {
    for (const name of this.#tallies.keys()) {
      const route = this.#routes.get(name);
      if (route === undefined || stateOf(route).shadow === undefined) this.#tallies.delete(name);
    }
  }
}

interface Found {
  readonly tally: Tally;
  readonly shadow: RouteShadow;
}

const layouts = new WeakMap<ModelSpec, string>();
function layoutOf(spec: ModelSpec): string {
  let layout = layouts.get(spec);
  if (layout === undefined) layouts.set(spec, (layout = JSON.stringify([spec.inputs, spec.axes, spec.buckets])));
  return layout;
}
const isSameLayout = (a: ModelSpec, b: ModelSpec): boolean => layoutOf(a) === layoutOf(b);
