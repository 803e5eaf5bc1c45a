/**
 * Verifies signed tokens (JWT) of an issuer that knows the applications. The keys are a JWKS from a file or an address.
 */
import { TuttiError, isName } from "@tutti/protocol";
import type { Logger } from "@tutti/ports/telemetry";
import {
  type JSONWebKeySet,
  type JWTPayload,
  type JWTVerifyGetKey,
  createLocalJWKSet,
  createRemoteJWKSet,
  errors,
  jwtVerify,
} from "jose";
import { type Asker, unauthenticated } from "./asker.ts";
import { WatchedFiles } from "./watched-files.ts";

export interface JwtOptions {
  /** A file, or an address. */
  readonly jwks: string;
  /** Undefined: any issuer that signs with these keys. */
  readonly issuer?: string | undefined;
  /** Tokens for other audiences are refused. Default: `tutti`. */
  readonly audience?: string | undefined;
}

export interface JwtParts {
  readonly log: Logger;
  /** Called when the file has other keys. */
  readonly onChange: () => void;
  readonly lookEveryMs?: number | undefined;
}

export const JWT_AUDIENCE = "tutti";
/** Administrator's scope, one of the words in the claim `scope`, which spaces separate. */
export const ADMIN_SCOPE = "tutti:admin";
/** Public keys only: with a shared secret any of the gateways could sign tokens. */
const ALGORITHMS = [
  ...["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
  ...["ES256", "ES384", "ES512", "EdDSA", "Ed25519"],
];
const CLOCKS_APART_S = 5;
const FETCH_MS = 5_000;
/** Longest trust in a withdrawn key. */
const KEYS_LAST_MS = 300_000;
const KEYS_LAST_LEAST_MS = 5_000;

export class JwtVerifier {
  readonly #options: JwtOptions;
  readonly #log: Logger;
  readonly #file: WatchedFiles<JWTVerifyGetKey> | undefined;
  readonly #remote: JWTVerifyGetKey | undefined;

  /** @throws {Error} the file is no JWKS, or the address is neither HTTPS nor on loopback */
  constructor(options: JwtOptions, { log, onChange, lookEveryMs }: JwtParts) {
    this.#options = options;
    this.#log = log;
    if (/^https?:\/\//.test(options.jwks)) {
      this.#remote = createRemoteJWKSet(jwksAddress(options.jwks), {
        timeoutDuration: FETCH_MS,
        cacheMaxAge: KEYS_LAST_MS,
        cooldownDuration: KEYS_LAST_LEAST_MS,
      });
      return;
    }
    this.#file = new WatchedFiles<JWTVerifyGetKey>({
      paths: [options.jwks],
      read: ([text = ""]) => createLocalJWKSet(JSON.parse(text) as JSONWebKeySet),
      onChange,
      onTrouble: (trouble) => log.error({ trouble }, "the keys of tokens stay as they were"),
      lookEveryMs,
    });
  }

  /** @throws {TuttiError} UNAUTHENTICATED, or UNAVAILABLE where the keys can't be fetched, as a rejection */
  async verify(token: string): Promise<Asker> {
    const { issuer, audience = JWT_AUDIENCE } = this.#options;
    const keys = this.#remote ?? this.#file!.current;
    try {
      const { payload } = await jwtVerify(token, keys, {
        algorithms: ALGORITHMS,
        audience,
        clockTolerance: CLOCKS_APART_S,
        requiredClaims: ["exp"],
        ...(issuer !== undefined && { issuer }),
      });
      return askerOf(payload);
    } catch (error) {
      if (error instanceof TuttiError) throw error;
      if (error instanceof errors.JOSEError && !KEYS_MISSING.has(error.code))
        throw unauthenticated(`the token is not good: ${error.message}`);
      this.#log.error({ trouble: String(error) }, "the keys of tokens can't be had");
      throw new TuttiError("TUTTI_UNAVAILABLE", "tokens can't be checked for now: their keys can't be had", {
        retryAfterMs: KEYS_LAST_LEAST_MS,
        cause: error,
      });
    }
  }

  stop(): void {
    this.#file?.stop();
  }
}

/** Codes of a missing, late or invalid answer; a failed connection is no error of jose's. */
const KEYS_MISSING: ReadonlySet<string> = new Set(["ERR_JWKS_TIMEOUT", "ERR_JOSE_GENERIC", "ERR_JWKS_INVALID"]);

function askerOf({ app, scope, exp = 0, sub }: JWTPayload): Asker {
  if (typeof app !== "string" || !isName(app))
    throw unauthenticated("the token names no application: its claim `app` does (letters, digits, - and _)");
  const isAdmin = typeof scope === "string" && scope.split(" ").includes(ADMIN_SCOPE);
  const who = `token of ${app}${typeof sub === "string" ? ` (${sub.slice(0, 80)})` : ""}`;
  return { app, isAdmin, who, until: (exp + CLOCKS_APART_S) * 1_000 };
}

const LOOPBACK_NAMES: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "[::1]"]);

function jwksAddress(text: string): URL {
  const url = new URL(text);
  if (url.protocol === "https:" || LOOPBACK_NAMES.has(url.hostname)) return url;
  throw new TuttiError(
    "TUTTI_INVALID_INPUT",
    `${text}: who changes these keys on their way may sign as anybody: use https`,
  );
}
