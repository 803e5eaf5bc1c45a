import { type KeyObject, createPrivateKey, createPublicKey, sign } from "node:crypto";
import { TuttiError } from "@tutti/protocol";
import type { Authenticator } from "@nats-io/transport-node";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/** The first byte of a user's public key, which makes it begin with U. */
const USER_PREFIX = 20 << 3;
/** PKCS 8 around the 32 bytes of an Ed25519 seed (RFC 8410). */
const PKCS8_HEAD = Buffer.from("302e020100300506032b657004220420", "hex");

/**
 * Proves an nkey (and a signed token, where there is one) with node's own Ed25519. The library's implementation is
 * JavaScript and takes some 15 ms of CPU per signature, for every new connection: after a server's restart it would
 * keep a machine with few cores busy.
 *
 * @param seed - `SU` and base 32
 * @throws {TuttiError} FORBIDDEN: the text is no seed
 */
export function nkeySigner(seed: string, jwt?: string): Authenticator {
  const key = privateKeyOf(seed);
  const nkey = publicKeyOf(key);
  return (nonce?: string) => {
    // As the library: without a challenge there is nothing to sign.
    const sig = nonce === undefined || nonce === "" ? "" : sign(null, Buffer.from(nonce), key).toString("base64");
    return jwt === undefined ? { nkey, sig } : { jwt, nkey, sig };
  };
}

function privateKeyOf(seed: string): KeyObject {
  // Two bytes of prefixes, the seed, a checksum.
  const bytes = fromBase32(seed);
  if (bytes.length !== 36 || crc16(bytes.subarray(0, 34)) !== bytes.readUInt16LE(34))
    throw new TuttiError("TUTTI_FORBIDDEN", "the credentials hold no valid nkey seed: its checksum is wrong");
  const der = Buffer.concat([PKCS8_HEAD, bytes.subarray(2, 34)]);
  return createPrivateKey({ key: der, format: "der", type: "pkcs8" });
}

function publicKeyOf(key: KeyObject): string {
  const { x = "" } = createPublicKey(key).export({ format: "jwk" });
  const bytes = Buffer.concat([Buffer.of(USER_PREFIX), Buffer.from(x, "base64url")]);
  const checksum = Buffer.alloc(2);
  checksum.writeUInt16LE(crc16(bytes));
  return toBase32(Buffer.concat([bytes, checksum]));
}

function fromBase32(text: string): Buffer {
  const bytes: number[] = [];
  let bits = 0;
  let value = 0;
  for (const letter of text) {
    value = ((value << 5) | ALPHABET.indexOf(letter)) & 0xfff;
    bits += 5;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push((value >> bits) & 0xff);
  }
  return Buffer.from(bytes);
}

function toBase32(bytes: Uint8Array): string {
  let text = "";
  let bits = 0;
  let value = 0;
  for (const byte of bytes) {
    value = ((value << 8) | byte) & 0xffff;
    for (bits += 8; bits >= 5; bits -= 5) text += ALPHABET[(value >> (bits - 5)) & 31];
  }
  return bits === 0 ? text : text + ALPHABET[(value << (5 - bits)) & 31];
}

/** CRC-16/XMODEM. */
function crc16(bytes: Uint8Array): number {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff;
  }
  return crc;
}
