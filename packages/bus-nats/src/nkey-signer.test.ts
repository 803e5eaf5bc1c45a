import { createUser, fromPublic } from "@nats-io/nkeys";
import { expect, test } from "vitest";
import { authenticatorOf } from "./credentials.ts";
import { nkeySigner } from "./nkey-signer.ts";

const fresh = () => {
  const user = createUser();
  return { seed: new TextDecoder().decode(user.getSeed()), publicKey: user.getPublicKey() };
};
interface Proof {
  readonly jwt?: string;
  readonly nkey: string;
  readonly sig: string;
}

test("public keys and signatures are those of the NATS project's own library", () => {
  for (let i = 0; i < 10; i++) {
    const { seed, publicKey } = fresh();
    const nonce = `nonce-${i}`;
    const { nkey, sig } = nkeySigner(seed)(nonce) as Proof;
    expect(nkey).toBe(publicKey);
    const bytes = new Uint8Array(Buffer.from(sig, "base64"));
    expect(fromPublic(publicKey).verify(new TextEncoder().encode(nonce), bytes)).toBe(true);
  }
});

test("a server that asks for no proof gets none, and a token is sent along", () => {
  const { seed, publicKey } = fresh();
  expect(nkeySigner(seed)()).toEqual({ nkey: publicKey, sig: "" });
  expect(nkeySigner(seed, "a.b.c")("")).toEqual({ jwt: "a.b.c", nkey: publicKey, sig: "" });
});

test("a seed with a wrong letter is refused before anything is sent", () => {
  const { seed } = fresh();
  const wrong = seed.slice(0, 20) + (seed[20] === "A" ? "B" : "A") + seed.slice(21);
  expect(() => nkeySigner(wrong)).toThrow(/checksum/);
  expect(() => nkeySigner("SU")).toThrow(/checksum/);
});

test("a .creds file gives its token and its key, in either order of line ends", () => {
  const { seed, publicKey } = fresh();
  const block = (name: string, text: string): string => `-----BEGIN ${name}-----\n${text}\n------END ${name}------\n\n`;
  const text = `${block("NATS USER JWT", "eyJ0.eyJq.c2ln-_")}*** IMPORTANT ***\n${block("USER NKEY SEED", seed)}`;
  for (const file of [text, text.replaceAll("\n", "\r\n")])
    expect(authenticatorOf({ kind: "file", text: file })("")).toEqual({
      jwt: "eyJ0.eyJq.c2ln-_",
      nkey: publicKey,
      sig: "",
    });
});
