import type { ActorKey, BatchId, RequestSeq } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type TokenClaim, signToken, verifyToken } from "./index.ts";

const secret = new Uint8Array(32).fill(5);
const claim: TokenClaim = {
  batcher: 11 as ActorKey,
  batchId: 4 as BatchId,
  executor: (2 ** 47) as ActorKey,
  seqs: [7, 8, 9] as RequestSeq[],
};

test("a token opens what it was signed for", () => {
  const token = signToken(secret, claim);
  expect(token.byteLength).toBe(16);
  expect(verifyToken(secret, { ...claim, seqs: [7, 8, 9] }, token)).toBe(true);
});

test("a token opens nothing else: no other request, order, batch, batcher or executor, and no other secret", () => {
  const token = signToken(secret, claim);
  const others: Partial<TokenClaim>[] = [
    { batcher: 12 as ActorKey },
    { batchId: 5 as BatchId },
    { executor: 3 as ActorKey },
    { seqs: [7, 8] },
    { seqs: [7, 8, 9, 10] },
    { seqs: [8, 7, 9] },
    { seqs: [] },
  ];
  for (const other of others) expect(verifyToken(secret, { ...claim, ...other }, token)).toBe(false);
  expect(verifyToken(new Uint8Array(32).fill(6), claim, token)).toBe(false);
  expect(verifyToken(secret, claim, token.subarray(1))).toBe(false);
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 20 }), (guess) => {
      expect(verifyToken(secret, claim, guess)).toBe(false);
    }),
  );
});
