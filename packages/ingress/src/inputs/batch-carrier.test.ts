import type { BatchDispatched } from "@tutti/protocol";
import { signToken } from "@tutti/ports/pull";
import { type BatchId, type ThreadId, actorKey, instant } from "@tutti/units";
import { expect, test } from "vitest";
import { carrierOf } from "./batch-carrier.ts";
import { createTensorServer } from "./tensor-server.ts";
import { PendingRequests } from "../requests/pending-requests.ts";
import { IngressFigures } from "../figures/ingress-figures.ts";
import { pendingRequest } from "../testing/pending-request.ts";

const [INGRESS, BATCHER, EXECUTOR] = [actorKey(5), actorKey(7), actorKey(9)];
const SECRET = new Uint8Array(32).fill(3);

/** One held request, in a batch that is sent with its row if `isSent`. */
function carrying(isSent: boolean) {
  const pending = new PendingRequests({ requestsMax: 8, bytesMax: 1_000, appRequestsMax: 8, appBytesMax: 1_000 });
  const request = pendingRequest({ thread: 64 as ThreadId, row: new Uint8Array([1]) });
  pending.add(request, instant(1));
  const tensorServer = createTensorServer({
    ...{ pending, secret: SECRET, figures: new IngressFigures() },
    ...{ onPulled: () => undefined, onRefused: () => undefined, onNotRun: () => undefined },
    ...{ settle: () => undefined, onStray: () => undefined, onResponded: () => undefined },
  });
  const carrier = carrierOf(INGRESS, {
    tensorServer,
    served: { pushBatch: () => isSent, pushes: (bytes) => bytes < 4, close: () => undefined, address: () => undefined },
    randomBytes: (count) => new Uint8Array(count),
    onCarried: (seq) => (pending.get(seq)!.isCarried = true),
  });
  const claim = { batcher: BATCHER, batchId: 4 as BatchId, executor: EXECUTOR, seqs: [1] };
  const token = signToken(SECRET, claim);
  const batch = { ...claim, gpu: 0, thread: request.thread, requests: [{ seq: 1 }], ingresses: [{ token }] };
  const wasSent = carrier.carry(batch as unknown as BatchDispatched, BATCHER);
  const pull = (): void => tensorServer.onPull({ ...batch, token }, () => undefined);
  return { request, wasSent, pull, carrier };
}

test("a batch that goes with its rows, or was to, may not have been accepted; once its executor pulls it has been", () => {
  for (const isSent of [true, false]) {
    const { request, wasSent, pull } = carrying(isSent);
    expect([wasSent, request.isCarried, request.executor]).toEqual([isSent, true, EXECUTOR]);
    pull();
    expect(request.isCarried).toBe(false);
  }
});

test("rows that had better be pulled are not taken, and leave their tries to the executor", () => {
  const { carrier, request } = carrying(true);
  const seqs = [{ seq: 1 }, { seq: 77 }];
  expect([carrier.takes(seqs), (request.row = new Uint8Array(4)), carrier.takes(seqs)]).toEqual([
    true,
    new Uint8Array(4),
    false,
  ]);
  expect(request.pulls).toBe(1);
});
