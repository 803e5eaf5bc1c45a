import type { Span } from "@tutti/ports/telemetry";
import type { Instant } from "@tutti/units";
import type { CatalogModel } from "../../catalog.ts";
import type { Timing } from "../admission.ts";
import type { OutcomeTicket } from "../outcome-ticket.ts";

/** A request of a stage on its way to the door. */
export interface StageRequest {
  readonly app: string;
  readonly model: CatalogModel;
  readonly tensors: Uint8Array;
  readonly arrivedAt: Instant;
  /** By when its stage has to have ended. */
  readonly timing: Timing;
  readonly priority: number;
  readonly span: Span | undefined;
  readonly ticket: OutcomeTicket;
}
