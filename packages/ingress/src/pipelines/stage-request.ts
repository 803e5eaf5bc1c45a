import type { Span } from "@tutti/ports/telemetry";
import type { Instant } from "@tutti/units";
import type { CatalogModel } from "@tutti/actors/runtime";
import type { Timing } from "../admission.ts";
import type { OutcomeTicket } from "../outcome-ticket.ts";

/** A stage's request before its admission. */
export interface StageRequest {
  readonly app: string;
  readonly model: CatalogModel;
  readonly tensors: Uint8Array;
  readonly arrivedAt: Instant;
  /** Its deadline is the planned end of its stage. */
  readonly timing: Timing;
  readonly priority: number;
  readonly span: Span | undefined;
  readonly ticket: OutcomeTicket;
}
