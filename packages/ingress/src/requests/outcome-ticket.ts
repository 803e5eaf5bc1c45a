import type { ResultBatch, TuttiError } from "@tutti/protocol";
import type { PendingRequest } from "./pending-request.ts";

/**
 * Ties a held request to a requester in this process: a pipeline's stage, or the gateway. The requester gets the
 * outcome instead of a reply subject.
 */
export interface OutcomeTicket {
  /** A stage counts for its model alone; any other request is a publisher's. */
  readonly isStage: boolean;
  /** The pending request, once it is held. */
  held: PendingRequest | undefined;
  /** Whether the requester gave up: a request that is still being read is then not held. */
  isGone: boolean;
  /** Called once. @param outcome - outputs are borrowed @param results - of its executor, if it ran */
  outcome(outcome: Uint8Array | TuttiError, results?: ResultBatch): void;
}
