import {
  type PullRequest,
  type PulledItem,
  type ResultBatch,
  type ResultItem,
  TuttiError,
  codeNumber,
  codeOfNumber,
} from "@tutti/protocol";
import { type DataHandlers, verifyToken } from "@tutti/ports/pull";
import type { ActorKey, BatchId } from "@tutti/units";
import type { PendingRequest } from "../requests/pending-request.ts";
import type { PendingRequests } from "../requests/pending-requests.ts";
import type { IngressFigures } from "../figures/ingress-figures.ts";

export interface TensorServerOptions {
  readonly pending: PendingRequests;
  readonly secret: Uint8Array;
  readonly figures: IngressFigures;
  /** An executor pulled the request for the first time for a batch of this batcher. */
  readonly onPulled: (held: PendingRequest, batcher: ActorKey) => void;
  /** A pull in the name of this batcher had a token that isn't ours. */
  readonly onRefused: (held: PendingRequest, batcher: ActorKey) => void;
  /** The row came too late for the batch, which ran without it. */
  readonly onNotRun: (held: PendingRequest) => void;
  /** A request has its outcome: outputs, or the error of its own row. */
  readonly settle: (held: PendingRequest, outcome: Uint8Array | TuttiError, results: ResultBatch) => void;
  /** Results came for a request that is not held any more. */
  readonly onStray: (seq: number, results: ResultBatch) => void;
  readonly onResponded: (results: ResultBatch) => void;
}

export interface TensorServer extends DataHandlers {
  /**
   * Rows that this process itself sends to the executor, under a token that the ingress made. If that fails, the
   * executor can pull them with the token.
   */
  take(pull: PullRequest): readonly PulledItem[];
  /** Bytes of a held request's row; 0 for a request that is not held. */
  byteLengthOf(seq: number): number;
}

/** Serves executors that pull inputs and bring results. It trusts only tokens and recorded pulls (T2). */
export function createTensorServer(options: TensorServerOptions): TensorServer {
  const { pending, secret, figures } = options;
  const take = (
    pull: PullRequest,
    may: (held: PendingRequest, pull: PullRequest) => boolean,
  ): readonly PulledItem[] => {
    const executor = pull.executor as ActorKey;
    const batcher = pull.batcher as ActorKey;
    const items = new Array<PulledItem>(pull.seqs.length);
    for (let i = 0; i < items.length; i++) {
      const seq = pull.seqs[i]!;
      const request = pending.get(seq);
      if (request !== undefined && request.thread === pull.thread && may(request, pull)) {
        if (notePulled(request, pull, executor)) options.onPulled(request, batcher);
        items[i] = { seq, row: request.row, traceparent: request.traceparent };
      } else items[i] = { seq, row: undefined, traceparent: "" };
    }
    return items;
  };
  return {
    take: (pull) => take(pull, mayPull),
    byteLengthOf: (seq) => pending.get(seq)?.row.byteLength ?? 0,
    onPull(pull: PullRequest, reply: (items: readonly PulledItem[] | undefined) => void): void {
      const executor = pull.executor as ActorKey;
      const claim = { batcher: pull.batcher as ActorKey, batchId: pull.batchId as BatchId, executor, seqs: pull.seqs };
      if (verifyToken(secret, claim, pull.token)) return reply(take(pull, mayPull));
      const isOurs = (seq: number): boolean => {
        const request = pending.get(seq);
        return request !== undefined && isSamePull(request, pull);
      };
      if (!pull.seqs.some(isOurs)) {
        figures.forbiddenPulls++;
        reply(undefined);
        for (const seq of pull.seqs) {
          const request = pending.get(seq);
          if (request !== undefined && request.thread === pull.thread) options.onRefused(request, claim.batcher);
        }
        return;
      }
      reply(take(pull, mayPullAgain));
    },

    onResults(results: ResultBatch): void {
      let isTheirs = false;
      for (const item of results.items) {
        const request = pending.get(item.seq);
        if (request !== undefined && isNotRun(item) && isSamePull(request, results)) {
          options.onNotRun(request);
          continue;
        }
        if (request === undefined || isNotRun(item) || !wasPulledBy(request, results)) {
          figures.strayResults++;
          if (request === undefined) options.onStray(item.seq, results);
          continue;
        }
        isTheirs = true;
        const outcome = item.outputs ?? new TuttiError(codeOfNumber(item.code), item.text);
        options.settle(request, outcome, results);
      }
      // Times from an executor without a pull would distort d_resp.
      if (isTheirs) options.onResponded(results);
    },
  };
}

const isNotRun = ({ outputs, code }: ResultItem): boolean => outputs === undefined && code === UNAVAILABLE;
const UNAVAILABLE = codeNumber("TUTTI_UNAVAILABLE");

/** A token serves once, and once more if the answer was lost on the way. An eavesdropper can't use it later. */
const PULLS_MAX = 2;

const isSamePull = (held: PendingRequest, { batchId, executor, token }: PullRequest | ResultBatch): boolean =>
  held.batch === batchId && held.executor === executor && sameBytes(held.token, token);
const mayPull = (held: PendingRequest, pull: PullRequest): boolean =>
  isSamePull(held, pull) ? held.pulls < PULLS_MAX : !wasPulledEarlierBy(held, pull);

const mayPullAgain = (held: PendingRequest, pull: PullRequest): boolean =>
  isSamePull(held, pull) && held.pulls < PULLS_MAX;

/**
 * Records a pull. A request that was put back and dispatched again may be answered by either batch: the first result
 * wins.
 *
 * @returns whether the pull is a new one
 */
function notePulled(held: PendingRequest, pull: PullRequest, executor: ActorKey): boolean {
  const isNew = !isSamePull(held, pull);
  held.pulls = isNew ? 1 : held.pulls + 1;
  held.isCarried = false;
  if (!isNew) return false;
  held.earlierBatch = held.batch;
  held.earlierExecutor = held.executor;
  held.earlierToken = held.token;
  held.batch = pull.batchId;
  held.executor = executor;
  held.token = pull.token;
  return true;
}
/** The token is the proof: batches and executors can be guessed or overheard. */
const wasPulledBy = (held: PendingRequest, results: ResultBatch): boolean =>
  isSamePull(held, results) || wasPulledEarlierBy(held, results);
const wasPulledEarlierBy = (held: PendingRequest, { batchId, executor, token }: PullRequest | ResultBatch): boolean =>
  held.earlierBatch === batchId && held.earlierExecutor === executor && sameBytes(held.earlierToken, token);

/** Compares in a time that does not depend on where the bytes differ. False without a token. */
function sameBytes(a: Uint8Array | undefined, b: Uint8Array): boolean {
  if (a === undefined || a.byteLength !== b.byteLength) return false;
  let difference = 0;
  for (let i = 0; i < a.byteLength; i++) difference |= a[i]! ^ b[i]!;
  return difference === 0;
}
