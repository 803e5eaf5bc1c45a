import { threadOf } from "@tutti/protocol";
import { type Span, formatTraceparent } from "@tutti/telemetry";
import { ALWAYS, type Instant, type RequestSeq } from "@tutti/units";
import { type Form, fnv1a } from "@tutti/wire";
import type { CatalogModel, ModelLease } from "../catalog.ts";
import type { Timing } from "./admission.ts";
import type { Held } from "./held-requests.ts";
import type { StageTicket } from "./pipelines/stage-ticket.ts";

/** What is known of a request before its body is read. */
export interface Arrival {
  readonly reply: string;
  readonly app: string;
  readonly model: CatalogModel;
  /** Its answer says which version it is of. */
  readonly isVersioned: boolean;
  readonly arrivedAt: Instant;
  readonly timing: Timing;
  readonly form: Form;
  readonly priority: number;
  /** The publisher's own; 0: it gave none. */
  readonly sizeHint: number;
  readonly wantedText: string | undefined;
  readonly span: Span | undefined;
  /** Of a request of our own. */
  readonly onSettled: (() => void) | undefined;
  /** Of a pipeline's stage. */
  readonly stage: StageTicket | undefined;
}

/** A request on the threshold: read, feasible, and about to be held. */
export interface Accepted extends Pick<
  Held,
  | "model"
  | "isVersioned"
  | "reply"
  | "form"
  | "publisherId"
  | "wanted"
  | "row"
  | "arrivedAt"
  | "priority"
  | "units"
  | "span"
  | "onSettled"
  | "stage"
> {
  readonly lease: ModelLease;
  readonly bucket: number;
  readonly app: string;
  readonly timing: Timing;
}

/** A request as it is held, told to nobody yet. */
export function heldOf(accepted: Accepted, place: { readonly seq: RequestSeq; readonly slot: number }): Held {
  const { model, timing, span, bucket, lease: _, app, ...kept } = accepted;
  return {
    ...kept,
    ...place,
    model,
    thread: threadOf(model.spec, bucket),
    appId: fnv1a(app),
    deadline: timing.deadline,
    slo: timing.slo,
    span,
    traceparent: span === undefined ? "" : formatTraceparent(span.context),
    arrivalSeq: 0,
    toldTerm: 0,
    isToldAgain: false,
    repairedAt: ALWAYS,
    batch: 0,
    executor: 0,
    token: undefined,
    pulls: 0,
    earlierBatch: 0,
    earlierExecutor: 0,
    earlierToken: undefined,
  };
}
