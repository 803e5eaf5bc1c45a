import type { Instant } from "@tutti/units";
import type { Candidate, DispatchedBatch, Grant, ModelEffects, RefusalCause, Request } from "../messages.ts";

/** Takes the effects of several models, each by its index. */
export interface ModelsListener {
  offered(model: number, candidate: Candidate): void;
  answered(model: number, grant: Grant, used: boolean, freeAt: Instant, offerSeq: number, scarcity: number): void;
  dispatched(model: number, batch: DispatchedBatch): void;
  refused(model: number, request: Request, cause: RefusalCause): void;
}

/** Passes one model's effects to a listener of several. */
export class ModelSink implements ModelEffects {
  readonly #listener: ModelsListener;
  readonly #model: number;

  constructor(listener: ModelsListener, model: number) {
    this.#listener = listener;
    this.#model = model;
  }

  offer(candidate: Candidate): void {
    this.#listener.offered(this.#model, candidate);
  }
  answerGrant(grant: Grant, used: boolean, freeAt: Instant, offerSeq: number, scarcity: number): void {
    this.#listener.answered(this.#model, grant, used, freeAt, offerSeq, scarcity);
  }
  dispatch(batch: DispatchedBatch): void {
    this.#listener.dispatched(this.#model, batch);
  }
  refuse(request: Request, cause: RefusalCause): void {
    this.#listener.refused(this.#model, request, cause);
  }
}
