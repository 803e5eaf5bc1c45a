import type { TuttiError } from "@tutti/protocol";
import type { PendingRequest } from "./pending-requests.ts";

/**
 * Ties a held request to an asker in this process, who hears its outcome instead of a reply subject: a pipeline's
 * stage, or the gateway.
 */
export interface OutcomeTicket {
  /** A stage counts for its model alone; any other request is a publisher's. */
  readonly isStage: boolean;
  /** Where it is held, once it is. */
  held: PendingRequest | undefined;
  /** Nobody wants it any more: what is still being read is not held. */
  isGone: boolean;
  /** Called once. @param outcome - outputs are borrowed */
  outcome(outcome: Uint8Array | TuttiError): void;
}
