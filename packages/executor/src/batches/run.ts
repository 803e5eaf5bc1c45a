import {
  type BatchDispatched,
  type ModelSpec,
  type PulledItem,
  type ResultItem,
  type Tensor,
  codeNumber,
  variantView,
} from "@tutti/protocol";
import type { Alarm } from "@tutti/ports/clock";
import type { RunOutcome } from "@tutti/ports/engine";
import type { CatalogModel } from "@tutti/actors/runtime";
import { type ActorKey, type Instant, bucketOf } from "@tutti/units";
import { encodeTensors } from "@tutti/wire";
import { rowOfOutput } from "./batch-buffer.ts";
import type { GpuSlot } from "./gpu-slot.ts";
import { type BatchPart, type RowBuffer, rowBuffer } from "./padded-buffer.ts";

/** Owner of a row: its ingress and request. */
interface RowOwner {
  readonly ingress: number;
  readonly seq: number;
}

/** One accepted batch, from its message until its results are pushed. */
export class Run {
  readonly batch: BatchDispatched;
  readonly batcher: ActorKey;
  readonly slot: GpuSlot;
  readonly model: CatalogModel;
  readonly receivedAt: Instant;
  readyAt: Instant;
  /** Ingresses that have not answered the pull. */
  waiting: number;
  /** The batch is given to the engine: rows that come now come too late. */
  started = false;
  /** Alarm that starts the batch with the rows that are there. */
  cutOff: Alarm | undefined;
  readonly traceparents: string[] = [];
  readonly #buffer: RowBuffer;
  #parts: readonly BatchPart[] = [];
  readonly #rows: RowOwner[] = [];
  /** Ingresses whose rows have come. */
  readonly #taken = new Set<number>();
  /** Items answered without running: a row that can't belong to this model. */
  readonly #refused: (RowOwner & { readonly text: string })[] = [];

  constructor(options: { batch: BatchDispatched; batcher: ActorKey; slot: GpuSlot; model: CatalogModel; at: Instant }) {
    this.batch = options.batch;
    this.batcher = options.batcher;
    this.slot = options.slot;
    this.model = options.model;
    this.receivedAt = options.at;
    this.readyAt = options.at;
    this.waiting = options.batch.ingresses.length;
    this.#buffer = rowBuffer(options.model.spec, bucketOf(options.batch.thread), options.batch.requests.length);
  }

  get rows(): number {
    return this.#buffer.rows;
  }
  /** Whether an ingress' rows have come; otherwise its requests did not run. */
  hasTaken(ingress: number): boolean {
    return this.#taken.has(ingress);
  }

  /** The sequences to pull from the i-th ingress: `requests` is grouped by ingress. */
  seqsOf(ingress: number): number[] {
    let start = 0;
    for (let i = 0; i < ingress; i++) start += this.batch.ingresses[i]!.count;
    return this.batch.requests.slice(start, start + this.batch.ingresses[ingress]!.count).map((request) => request.seq);
  }

  /** Copies the rows that came; they are borrowed. */
  take(ingress: number, items: readonly PulledItem[]): void {
    this.#taken.add(ingress);
    for (const item of items) {
      if (item.row === undefined) continue; // Answered or withdrawn: the batch runs without it.
      if (this.#buffer.add(item.row)) {
        this.#rows.push({ ingress, seq: item.seq });
        if (item.traceparent !== "") this.traceparents.push(item.traceparent);
      } else
        this.#refused.push({
          ingress,
          seq: item.seq,
          text: "the input does not have the length of this model's inputs: was the model replaced meanwhile?",
        });
    }
  }

  /** The parts that are given to the engine, in this order. */
  parts(): readonly BatchPart[] {
    this.#parts = this.#buffer.parts();
    return this.#parts;
  }

  /** Number of rows in each part. */
  partSizes(): number[] {
    return this.#parts.map(({ rows }) => rows.length);
  }
  /** Units of the longest row in each part; empty if no axis is padded. */
  longest(): number[] {
    return this.#parts.flatMap(({ units }) => (units === undefined ? [] : [Math.max(...units)]));
  }

  /** The outcome of each item of one ingress. @param outcomes - outcomes of the parts; none if nothing ran */
  results(ingress: number, outcomes: readonly RunOutcome[]): ResultItem[] {
    if (!this.#taken.has(ingress)) return this.seqsOf(ingress).map(notRun);
    const items: ResultItem[] = [];
    for (const { seq, text } of this.#refused.filter((refused) => refused.ingress === ingress))
      items.push({ seq, outputs: undefined, code: codeNumber("TUTTI_INTERNAL"), text });
    this.#parts.forEach((part, i) => {
      part.rows.forEach((row, at) => {
        const owner = this.#rows[row]!;
        if (owner.ingress === ingress) items.push(this.#resultOf(owner.seq, { part, at }, outcomes[i]));
      });
    });
    return items;
  }

  /** @param place - the `at`-th row of a part */
  #resultOf(
    seq: number,
    { part, at }: { readonly part: BatchPart; readonly at: number },
    outcome: RunOutcome | undefined,
  ): ResultItem {
    const batchSize = part.rows.length;
    if (outcome?.kind !== "ran") {
      if (outcome?.kind === "failed" && outcome.isUnloaded === true) return notRun(seq);
      // The item was alone in its batch, so only the item failed: the model is as good as before.
      if (outcome?.kind === "failed" && !outcome.fault && batchSize === 1) return invalid(seq, outcome.reason);
      const text = outcome === undefined ? "the batch did not run" : `running the batch failed: ${outcome.reason}`;
      return { seq, outputs: undefined, code: codeNumber("TUTTI_INTERNAL"), text };
    }
    const failed = outcome.failedRows.find((candidate) => candidate.row === at);
    if (failed !== undefined) return invalid(seq, failed.reason);
    const lengths = this.#buffer.lengthsOf(part.rows[at]!);
    const answer = answerOf(this.model.spec, outcome, { at, batchSize });
    if (answer === undefined) return invalid(seq, "its family has no such variant: was it loaded anew meanwhile?");
    const { spec, outputs, row, rows } = answer;
    const tensors = outputs.map((output) => rowOfOutput(spec, output, { row, batchSize: rows, lengths }));
    return { seq, outputs: encodeTensors(tensors), code: 0, text: "" };
  }
}

const invalid = (seq: number, reason: string): ResultItem => ({
  seq,
  outputs: undefined,
  code: codeNumber("TUTTI_INVALID_INPUT"),
  text: `the model can't compute this input: ${reason}`,
});

const notRun = (seq: number): ResultItem => ({
  seq,
  outputs: undefined,
  code: codeNumber("TUTTI_UNAVAILABLE"),
  text: "its batch ran without it",
});

interface RowAnswer {
  /** The model whose outputs they are; for a family, the variant. */
  readonly spec: ModelSpec;
  readonly outputs: readonly Tensor[];
  /** Index among `rows`. */
  readonly row: number;
  readonly rows: number;
}

type Ran = Extract<RunOutcome, { kind: "ran" }>;
const grouped = new WeakMap<Ran, ReadonlyMap<number, RowAnswer>>();

/** Finds the outputs of a row; undefined if no variant has answered it. */
function answerOf(
  spec: ModelSpec,
  outcome: Ran,
  { at, batchSize }: { readonly at: number; readonly batchSize: number },
): RowAnswer | undefined {
  if (spec.family === undefined) return { spec, outputs: outcome.outputs, row: at, rows: batchSize };
  let places = grouped.get(outcome);
  if (places === undefined) {
    const answers = (outcome.groups ?? []).flatMap(({ variant, rows, outputs }) => {
      const view = variantView(spec, variant);
      return rows.map((place, row) => [place, { spec: view, outputs, row, rows: rows.length }] as const);
    });
    grouped.set(outcome, (places = new Map(answers)));
  }
  return places.get(at);
}
