/**
 * Connects the gateway to the ingress of the same process without messages or encoding. Checks, figures and timers are
 * those of any other request.
 */
import { type ResultBatch, TuttiError } from "@tutti/protocol";
import { between } from "@tutti/units";
import { decodeTensors } from "@tutti/wire";
import type { PendingRequest } from "./requests/pending-request.ts";
import type { OutcomeTicket } from "./requests/outcome-ticket.ts";
import type { LocalAnswer, LocalIngress, LocalRequest } from "@tutti/actors/runtime";

export interface LocalIngressOptions {
  /** Whether it takes requests for a target without a message. */
  readonly serves: (target: string) => boolean;
  readonly submit: (request: LocalRequest, ticket: OutcomeTicket) => void;
  readonly cancel: (held: PendingRequest) => void;
}

export function localIngress({ serves, submit, cancel }: LocalIngressOptions): LocalIngress {
  return {
    ask(request, done) {
      if (!serves(request.target)) return undefined;
      const ticket: OutcomeTicket = {
        isStage: false,
        held: undefined,
        isGone: false,
        outcome: (outcome, results) =>
          done(outcome instanceof TuttiError ? outcome : answerOf(outcome, ticket.held!, results)),
      };
      submit(request, ticket);
      return {
        cancel: () => {
          ticket.isGone = true;
          if (ticket.held !== undefined) cancel(ticket.held);
        },
      };
    },
  };
}

/** @param tensors - borrowed, so its reader gets a copy */
function answerOf(
  tensors: Uint8Array,
  { arrivedAt, model }: PendingRequest,
  results: ResultBatch | undefined,
): LocalAnswer | TuttiError {
  try {
    return {
      outputs: decodeTensors(new Uint8Array(tensors)),
      version: model.spec.version,
      batchSize: results?.batchSize,
      queueUs: results === undefined ? undefined : between(arrivedAt, results.startedAt),
    };
  } catch (cause) {
    return new TuttiError("TUTTI_INTERNAL", "the executor's outputs can't be read", { cause });
  }
}
