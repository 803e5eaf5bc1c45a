import type { BatchDispatched } from "@tutti/protocol";
import { type PulledItem, type ResultItem, type Tensor, codeNumber } from "@tutti/protocol";
import type { Alarm } from "@tutti/clock";
import type { RunOutcome } from "@tutti/engine";
import type { CatalogModel } from "../catalog.ts";
import { type ActorKey, type Instant, bucketOf } from "@tutti/units";
import { encodeTensors } from "@tutti/wire";
import { BatchBuffer, rowOfOutput } from "./batch-buffer.ts";
import type { GpuDesk } from "./gpu-desk.ts";

/** Whose row it is. */
interface RowOwner {
  readonly ingress: number;
  readonly seq: number;
}

/** One accepted batch, from its message until its results are pushed. */
export class Run {
  readonly batch: BatchDispatched;
  readonly batcher: ActorKey;
  readonly desk: GpuDesk;
  readonly model: CatalogModel;
  readonly receivedAt: Instant;
  readyAt: Instant;
  /** Ingresses that have not answered the pull. */
  waiting: number;
  /** Given to the engine: rows that come now come too late. */
  started = false;
  /** When it starts with the rows that are there. */
  cutOff: Alarm | undefined;
  readonly traceparents: string[] = [];
  readonly #buffer: BatchBuffer;
  readonly #rows: RowOwner[] = [];
  /** Items answered without running: a row that can't belong to this model. */
  readonly #refused: (RowOwner & { readonly text: string })[] = [];

  constructor(options: { batch: BatchDispatched; batcher: ActorKey; desk: GpuDesk; model: CatalogModel; at: Instant }) {
    this.batch = options.batch;
    this.batcher = options.batcher;
    this.desk = options.desk;
    this.model = options.model;
    this.receivedAt = options.at;
    this.readyAt = options.at;
    this.waiting = options.batch.ingresses.length;
    this.#buffer = new BatchBuffer(options.model.spec, bucketOf(options.batch.thread), options.batch.requests.length);
  }

  get rows(): number {
    return this.#buffer.rows;
  }

  /** The sequences to pull from the i-th ingress: `requests` is grouped by ingress. */
  seqsOf(ingress: number): number[] {
    let start = 0;
    for (let i = 0; i < ingress; i++) start += this.batch.ingresses[i]!.count;
    return this.batch.requests.slice(start, start + this.batch.ingresses[ingress]!.count).map((request) => request.seq);
  }

  /** Copies what came; the rows are borrowed. */
  take(ingress: number, items: readonly PulledItem[]): void {
    for (const item of items) {
      if (item.row === undefined) continue; // Answered or withdrawn meanwhile: the batch runs without it.
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

  tensors(): Tensor[] {
    return this.#buffer.take();
  }

  /** The outcome of each item of one ingress. */
  results(ingress: number, outcome: RunOutcome | undefined): ResultItem[] {
    const items: ResultItem[] = [];
    for (const { seq, text } of this.#refused.filter((refused) => refused.ingress === ingress))
      items.push({ seq, outputs: undefined, code: codeNumber("TUTTI_INTERNAL"), text });
    for (let row = 0; row < this.#rows.length; row++) {
      const owner = this.#rows[row]!;
      if (owner.ingress === ingress) items.push(this.#resultOf(owner.seq, row, outcome));
    }
    return items;
  }

  #resultOf(seq: number, row: number, outcome: RunOutcome | undefined): ResultItem {
    if (outcome?.kind !== "ran") {
      // Alone in its batch, an item that can't be computed is all that failed: the model is as good as before.
      if (outcome?.kind === "failed" && !outcome.fault && this.#rows.length === 1) return invalid(seq, outcome.reason);
      const text = outcome === undefined ? "the batch did not run" : `running the batch failed: ${outcome.reason}`;
      return { seq, outputs: undefined, code: codeNumber("TUTTI_INTERNAL"), text };
    }
    const failed = outcome.failedRows.find((candidate) => candidate.row === row);
    if (failed !== undefined) return invalid(seq, failed.reason);
    const tensors = outcome.outputs.map((output) => rowOfOutput(this.model.spec, output, row, this.#rows.length));
    return { seq, outputs: encodeTensors(tensors), code: 0, text: "" };
  }
}

const invalid = (seq: number, reason: string): ResultItem => ({
  seq,
  outputs: undefined,
  code: codeNumber("TUTTI_INVALID_INPUT"),
  text: `the model can't compute this input: ${reason}`,
});
