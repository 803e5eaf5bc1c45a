import { type KeyObject, createHmac, createSecretKey, timingSafeEqual } from "node:crypto";
import { TOKEN_BYTES } from "@tutti/protocol";
import type { ActorKey, BatchId, RequestSeq } from "@tutti/units";

/**
 * The right to pull exactly these requests, once, for one batch. It is 128 bits of HMAC-SHA256 over all fields, keyed
 * by a secret that the ingress gave to the batcher. Someone who only sees the token can't use it for other requests,
 * another batch or another executor.
 */
export interface TokenClaim {
  readonly batcher: ActorKey;
  readonly batchId: BatchId;
  readonly executor: ActorKey;
  readonly seqs: readonly RequestSeq[] | readonly number[];
}

export function signToken(secret: Uint8Array, claim: TokenClaim): Uint8Array {
  const numbers = new Float64Array(claim.seqs.length + 3);
  numbers[0] = claim.batcher;
  numbers[1] = claim.batchId;
  numbers[2] = claim.executor;
  numbers.set(claim.seqs, 3);
  return createHmac("sha256", keyOf(secret)).update(new Uint8Array(numbers.buffer)).digest().subarray(0, TOKEN_BYTES);
}

export function verifyToken(secret: Uint8Array, claim: TokenClaim, token: Uint8Array): boolean {
  return token.byteLength === TOKEN_BYTES && timingSafeEqual(signToken(secret, claim), token);
}

/**
 * Keys by secret. Making a key of bytes costs as much as signing with it, and a secret lasts as long as its ingress.
 */
const keys = new WeakMap<Uint8Array, KeyObject>();
function keyOf(secret: Uint8Array): KeyObject {
  let key = keys.get(secret);
  if (key === undefined) keys.set(secret, (key = createSecretKey(secret)));
  return key;
}
