import { readFileSync } from "node:fs";
import { TuttiError } from "@tutti/protocol";
import { type Authenticator, tokenAuthenticator, usernamePasswordAuthenticator } from "@nats-io/transport-node";
import { nkeySigner } from "./nkey-signer.ts";

/**
 * Identity of a connection. It is the text of a credentials file (an nkey seed on a line of its own, or a decorated
 * `.creds` file with a JWT), or the password or token of a NATS server that others run.
 */
export type Credentials =
  | { readonly kind: "file"; readonly text: string }
  | { readonly kind: "password"; readonly user: string; readonly password: string }
  | { readonly kind: "token"; readonly token: string };

/** @throws {TuttiError} the file cannot be read, or holds no seed */
export function readCredentials(path: string): Credentials {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    throw new TuttiError("TUTTI_FORBIDDEN", `the credentials file ${path} cannot be read`, { cause });
  }
  const credentials: Credentials = { kind: "file", text };
  if (seedOf(text) === undefined) {
    throw new TuttiError("TUTTI_FORBIDDEN", `${path} holds neither an nkey seed (SU…) nor a .creds file`);
  }
  return credentials;
}

export function authenticatorOf(credentials: Credentials): Authenticator {
  switch (credentials.kind) {
    case "password":
      return usernamePasswordAuthenticator(credentials.user, credentials.password);
    case "token":
      return tokenAuthenticator(credentials.token);
    case "file": {
      const seed = seedOf(credentials.text);
      if (seed === undefined) throw new TuttiError("TUTTI_FORBIDDEN", "the credentials hold no nkey seed");
      return nkeySigner(seed, tokenIn(credentials.text));
    }
  }
}

/** The inbox prefix that our own files name beside the seed: their user may subscribe only below it. */
export const inboxPrefixOf = (credentials: Credentials | undefined): string | undefined =>
  credentials?.kind === "file" ? /^# inbox-prefix: (\S+)$/m.exec(credentials.text)?.[1] : undefined;

/** A user's signed token, as `.creds` files frame it. */
const tokenIn = (text: string): string | undefined => /BEGIN NATS USER JWT-*\s+(\S+)/.exec(text)?.[1];

/** A user's seed: `SU` and base 32. */
const seedOf = (text: string): string | undefined => /^\s*(SU[A-Z2-7]{56})\s*$/m.exec(text)?.[1];
