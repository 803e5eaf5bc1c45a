/** Authorisation of administrative acts by the admin token; without one they are refused. */
import { timingSafeEqual } from "node:crypto";
import { sha256Of } from "@tutti/admin/api-keys";
import { TuttiError } from "@tutti/protocol";

/** Shorter tokens can be guessed. */
const TOKEN_LENGTH_MIN = 16;

/** @throws {Error} for a token that is too weak */
export function checkToken(token: string): string {
  const trimmed = token.trim();
  if (trimmed.length >= TOKEN_LENGTH_MIN && /^[\x21-\x7e]+$/.test(trimmed)) return trimmed;
  throw new Error(
    `a token has at least ${TOKEN_LENGTH_MIN} printable characters and no spaces, such as those of \`openssl rand -hex 32\``,
  );
}

/** @throws {TuttiError} FORBIDDEN where the gateway has no admin token, UNAUTHENTICATED for another or none */
export function authorise(token: string | undefined, authorization: string | undefined): void {
  if (token === undefined)
    throw new TuttiError(
      "TUTTI_FORBIDDEN",
      "nobody may do this here: start the gateway with --admin-token, or use `tutti load`, `unload` or `restart`",
    );
  const given = /^Bearer (\S+)$/i.exec(authorization ?? "")?.[1] ?? "";
  if (isToken(token, given)) return;
  throw new TuttiError(
    "TUTTI_UNAUTHENTICATED",
    "this needs the admin token: Authorization: Bearer <token of --admin-token>",
  );
}

/** Compares digests, which have one length, so the time that it takes says nothing about the token. */
export const isToken = (token: string, given: string): boolean => timingSafeEqual(sha256Of(given), sha256Of(token));
