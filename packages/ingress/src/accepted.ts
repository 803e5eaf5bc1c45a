import { threadOf } from "@tutti/protocol";
import { type Span, formatTraceparent } from "@tutti/ports/telemetry";
import { ALWAYS, type Instant, type RequestSeq } from "@tutti/units";
import { type Form, fnv1a } from "@tutti/wire";
import type { CatalogModel, ModelLease } from "@tutti/actors/runtime";
import type { Timing } from "./admission.ts";
import type { PendingRequest } from "./pending-requests.ts";
import type { OutcomeTicket } from "./outcome-ticket.ts";

/** A request before its body is read. */
export interface Arrival {
  readonly reply: string;
  readonly app: string;
  readonly model: CatalogModel;
  /** Whether its answer names the version. */
  readonly isVersioned: boolean;
  readonly arrivedAt: Instant;
  readonly timing: Timing;
  readonly form: Form;
  readonly priority: number;
  /** Size hint of the publisher; 0: none. */
  readonly sizeHint: number;
  readonly wantedText: string | undefined;
  readonly span: Span | undefined;
  /** Set for a warm-up request. */
  readonly onSettled: (() => void) | undefined;
  /** Set for a requester in this process. */
  readonly ticket: OutcomeTicket | undefined;
}

/** A request that is read and feasible, and about to be held. */
export interface Accepted extends Pick<PendingRequest, "publisherId" | "wanted" | "row" | "units"> {
  readonly arrival: Arrival;
  readonly lease: ModelLease;
  readonly bucket: number;
}

/** A pending request whose arrival has not been sent yet. Field by field: spreading takes three times as long. */
export function pendingRequestOf(
  accepted: Accepted,
  place: { readonly seq: RequestSeq; readonly slot: number },
): PendingRequest {
  const { arrival } = accepted;
  const { model, timing, span } = arrival;
  return {
    seq: place.seq,
    slot: place.slot,
    model,
    isVersioned: arrival.isVersioned,
    thread: threadOf(model.spec, accepted.bucket),
    appId: fnv1a(arrival.app),
    reply: arrival.reply,
    onSettled: arrival.onSettled,
    ticket: arrival.ticket,
    form: arrival.form,
    publisherId: accepted.publisherId,
    wanted: accepted.wanted,
    row: accepted.row,
    arrivedAt: arrival.arrivedAt,
    deadline: timing.deadline,
    slo: timing.slo,
    priority: arrival.priority,
    units: accepted.units,
    span,
    traceparent: span === undefined ? "" : formatTraceparent(span.context),
    arrivalSeq: 0,
    toldTerm: 0,
    isToldAgain: false,
    isCarried: false,
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
