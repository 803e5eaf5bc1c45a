import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { TOKEN_BYTES } from "@tutti/protocol";

/** A secret of one ingress' port: 192 random bits, which its heartbeats carry to the cluster's processes. */
export const newSecret = (): string => randomBytes(24).toString("base64url");

/**
 * Proof that its sender knows the secret: 128 bits of HMAC-SHA256. The hello and the welcome have different ones, so
 * that neither side can answer with what it was sent.
 */
export function proofOf(secret: string, frame: "hello" | "welcome", executor: number, ingress: number): Uint8Array {
  const text = `tutti-data ${frame} ${executor} ${ingress}`;
  return createHmac("sha256", secret).update(text).digest().subarray(0, TOKEN_BYTES);
}

export const isProof = (proof: Uint8Array, expected: Uint8Array): boolean =>
  proof.byteLength === expected.byteLength && timingSafeEqual(proof, expected);
