import { type PullRequest, type PulledItem, type ResultBatch, codeNumber } from "@tutti/protocol";
import { signToken } from "@tutti/ports/pull";
import { type ActorKey, type BatchId, type GpuId, type ThreadId, actorKey, instant } from "@tutti/units";
import { expect, test } from "vitest";
import { createTensorServer } from "./tensor-server.ts";
import { PendingRequests } from "../requests/pending-requests.ts";
import { IngressFigures } from "../figures/ingress-figures.ts";
import { pendingRequest } from "../testing/pending-request.ts";

const THREAD = 64 as ThreadId;
const [BATCHER, EXECUTOR] = [actorKey(7), actorKey(9)];

function ingress() {
  const pending = new PendingRequests({ requestsMax: 8, bytesMax: 1_000, appRequestsMax: 8, appBytesMax: 1_000 });
  const secret = new Uint8Array(32).fill(3);
  const figures = new IngressFigures();
  const told: string[] = [];
  for (const seq of [1, 2]) pending.add(pendingRequest({ thread: THREAD, row: new Uint8Array([seq]) }), instant(1));
  const tensorServer = createTensorServer({
    pending,
    secret,
    figures,
    onPulled: ({ seq }, batcher) => told.push(`${seq} pulled for ${batcher}`),
    onRefused: ({ seq }, batcher) => told.push(`${seq} refused to ${batcher}`),
    onNotRun: ({ seq }) => told.push(`${seq} not run`),
    settle: ({ seq }) => told.push(`${seq} settled`),
    onStray: () => undefined,
    onResponded: () => undefined,
  });
  const pull = (
    batchId: number,
    options: { executor?: ActorKey; secret?: Uint8Array } = {},
  ): PulledItem[] | undefined => {
    const claim = {
      batcher: BATCHER,
      batchId: batchId as BatchId,
      executor: options.executor ?? EXECUTOR,
      seqs: [1, 2],
    };
    const token = signToken(options.secret ?? secret, claim);
    let answer: readonly PulledItem[] | undefined;
    const request = { ...claim, gpu: 0 as GpuId, thread: THREAD, token } as unknown as PullRequest;
    tensorServer.onPull(request, (items) => (answer = items));
    return answer as PulledItem[] | undefined;
  };
  /** An executor reports that the batch ran without them. */
  const giveBack = (batchId: number, of = secret): void => {
    const claim = { batcher: BATCHER, batchId: batchId as BatchId, executor: EXECUTOR, seqs: [1, 2] };
    const items = claim.seqs.map((seq) => ({
      seq,
      outputs: undefined,
      code: codeNumber("TUTTI_UNAVAILABLE"),
      text: "",
    }));
    tensorServer.onResults({ ...claim, token: signToken(of, claim), items } as unknown as ResultBatch);
  };
  const rows = (batchId: number): (number | undefined)[] => pull(batchId)!.map(({ row }) => row?.[0]);
  return { tensorServer, pull, rows, giveBack, told, figures };
}

test("a token serves once, once more where the answer was lost, and never again: who overhears it later has nothing of it", () => {
  const { rows } = ingress();
  expect(rows(1)).toEqual([1, 2]);
  expect(rows(1)).toEqual([1, 2]);
  expect(rows(1)).toEqual([undefined, undefined]);
});

test("the token of an earlier batch is void once the requests were dispatched again", () => {
  const { rows } = ingress();
  expect(rows(1)).toEqual([1, 2]);
  expect(rows(2)).toEqual([1, 2]);
  expect(rows(1)).toEqual([undefined, undefined]);
});

test("the first pull for a batch is told, and one with a token that is not ours, row by row", () => {
  const { pull, told, figures } = ingress();
  expect(pull(1, { secret: new Uint8Array(32) })).toBeUndefined();
  pull(2);
  pull(2);
  expect(told).toEqual(["1 refused to 7", "2 refused to 7", "1 pulled for 7", "2 pulled for 7"]);
  expect(figures.forbiddenPulls).toBe(1);
});

test("what the ingress sends under a token of its own making can be pulled once more with it, and with no other (T2)", () => {
  const { tensorServer, figures } = ingress();
  const token = new Uint8Array(16).fill(9);
  const pull = {
    ...{ batcher: BATCHER, batchId: 5, executor: EXECUTOR, seqs: [1, 2], gpu: 0 as GpuId, thread: THREAD },
    token,
  } as unknown as PullRequest;
  const pulled = (request: PullRequest): readonly (PulledItem | undefined)[] | undefined => {
    let answer: readonly PulledItem[] | undefined;
    tensorServer.onPull(request, (items) => (answer = items));
    return answer?.map((item) => (item.row === undefined ? undefined : item));
  };
  expect(tensorServer.take(pull).map(({ row }) => row?.[0])).toEqual([1, 2]);
  expect(pulled({ ...pull, token: new Uint8Array(16).fill(8) })).toBeUndefined();
  expect(pulled({ ...pull, batchId: 6 })).toBeUndefined();
  expect(figures.forbiddenPulls).toBe(2);
  expect(pulled(pull)?.map((item) => item?.seq)).toEqual([1, 2]);
  expect(pulled(pull)?.map((item) => item?.seq)).toEqual([undefined, undefined]);
});

test("requests whose rows came too late are given back, not answered: by the batch that they are in, and by nobody without its token", () => {
  const { rows, giveBack, told } = ingress();
  rows(1);
  rows(2);
  told.length = 0;
  giveBack(1);
  giveBack(2, new Uint8Array(32).fill(4));
  expect(told).toEqual([]);
  giveBack(2);
  expect(told).toEqual(["1 not run", "2 not run"]);
});
