import type { TuttiError } from "@tutti/protocol";
import type { Span } from "@tutti/telemetry";
import type { Instant } from "@tutti/units";
import type { CatalogModel } from "../../catalog.ts";
import type { Timing } from "../admission.ts";
import type { Held } from "../held-requests.ts";

/** Ties a held request to the pipeline whose stage it is of. */
export interface StageTicket {
  /** Where it is held, once it is. */
  held: Held | undefined;
  /** Nobody wants it any more: what is still being read is not held. */
  isGone: boolean;
  /** Called once. @param outcome - outputs are borrowed */
  outcome(outcome: Uint8Array | TuttiError): void;
}

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
  readonly stage: StageTicket;
}
