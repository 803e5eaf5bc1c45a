/**
 * Authentication of a gateway that asks for keys. Its clients are applications with an API key or a signed token, each
 * in its own name, and administrators. A checked header is remembered, so that a request costs a map look-up, and a new
 * header a hash or a signature.
 */
import type { IncomingMessage } from "node:http";
import { TuttiError } from "@tutti/protocol";
import type { Logger } from "@tutti/ports/telemetry";
import { BODY_BYTES_MAX } from "../http/body-reader.ts";
import { isToken } from "../http/bearer.ts";
import { type Asker, unauthenticated } from "./asker.ts";
import { type JwtOptions, JwtVerifier } from "./jwt-verifier.ts";
import { KeyStore } from "./key-store.ts";
import { Quotas } from "./quotas.ts";
import { RefusedKeys } from "./refused-keys.ts";

export interface AccessConfig {
  /** Path of the file that `tutti auth key` writes. */
  readonly apiKeys?: string | undefined;
  readonly jwt?: JwtOptions | undefined;
  /** Interval of the checks for changed files. Default: once a second. */
  readonly lookEveryMs?: number | undefined;
}

/** Accepted headers that are remembered: beyond, all are forgotten and checked again. */
export const ASKERS_KNOWN_MAX = 4_096;
/** Longer headers are checked each time. */
const HEADER_LENGTH_KEPT = 4_096;
/** Time after which a token is checked again, since the keys of its issuer may have been withdrawn. */
const REMEMBERED_MS = 60_000;

export class Access {
  readonly #keys: KeyStore | undefined;
  readonly #jwt: JwtVerifier | undefined;
  readonly #token: string | undefined;
  readonly #quotas: Quotas;
  readonly #refused: RefusedKeys;
  readonly #known = new Map<string, Asker>();

  /** @throws {Error} a file is missing or invalid */
  constructor({ apiKeys, jwt, lookEveryMs }: AccessConfig, token: string | undefined, log: Logger) {
    const parts = { log, onChange: () => this.#known.clear(), lookEveryMs };
    this.#keys = apiKeys === undefined ? undefined : new KeyStore({ ...parts, path: apiKeys });
    this.#jwt = jwt === undefined ? undefined : new JwtVerifier(jwt, parts);
    this.#token = token;
    this.#refused = new RefusedKeys(log);
    this.#quotas = new Quotas((app) => this.#keys?.quotaOf(app));
  }

  /** @param authorization - as the client sent it. @throws {TuttiError} UNAUTHENTICATED, also as a rejection */
  identify(authorization: string | undefined): Asker | Promise<Asker> {
    const known = this.#known.get(authorization ?? "");
    const now = Date.now();
    if (known !== undefined && known.until > now) return known;
    const text = bearerOf(authorization);
    const key = this.#keys?.find(text, now);
    if (key !== undefined) {
      const { id, app, isAdmin, expiresAt = Infinity } = key;
      return this.#remember(authorization, { app, isAdmin, who: `key ${id} of ${app}`, until: expiresAt * 1_000 });
    }
    if (this.#token !== undefined && isToken(this.#token, text))
      return this.#remember(authorization, { app: undefined, isAdmin: true, who: "admin token", until: Infinity });
    if (this.#jwt === undefined || !/^[\w-]+\.[\w-]+\.[\w-]+$/.test(text)) throw unauthenticated(NOT_GOOD);
    return this.#jwt.verify(text).then((asker) => {
      const until = Math.min(asker.until, now + REMEMBERED_MS);
      return this.#remember(authorization, { ...asker, until });
    });
  }

  /**
   * Identifies as `identify` does, and logs refused keys. @param from - the address, for the log. @throws {TuttiError}
   * UNAUTHENTICATED as a rejection
   */
  async admit(authorization: string | undefined, from: () => string): Promise<Asker> {
    try {
      return await this.identify(authorization);
    } catch (error) {
      this.#refused.note(from());
      throw error;
    }
  }

  /**
   * Takes a request for inference from the quota, with so many bytes until they are given back.
   *
   * @returns a function that gives the bytes back
   * @throws {TuttiError} FORBIDDEN, QUOTA_EXCEEDED, TOO_LARGE
   */
  take({ app, who }: Asker, bytes: number): () => void {
    if (app === undefined)
      throw new TuttiError("TUTTI_FORBIDDEN", `the ${who} asks for nothing in any application's name`);
    return this.#quotas.take(app, bytes);
  }

  /**
   * Takes a request's bytes beside its body. @returns a function that gives them back. @throws {TuttiError} as `take`
   */
  hold(app: string, bytes: number): () => void {
    return this.#quotas.hold(app, bytes);
  }

  stop(): void {
    this.#keys?.stop();
    this.#jwt?.stop();
  }

  #remember(authorization: string | undefined, asker: Asker): Asker {
    if (authorization === undefined || authorization.length > HEADER_LENGTH_KEPT) return asker;
    if (this.#known.size >= ASKERS_KNOWN_MAX) this.#known.clear();
    this.#known.set(authorization, asker);
    return asker;
  }
}

const NOT_GOOD = "this key is not good, or not any more: whoever runs the gateway makes them with `tutti auth key add`";

function bearerOf(authorization: string | undefined): string {
  const text = /^Bearer +(\S+) *$/i.exec(authorization ?? "")?.[1];
  if (text === undefined) throw unauthenticated("this gateway needs a key: Authorization: Bearer <key>");
  return text;
}

/** Memory of a request's body at most. If its length is unknown or it is compressed, it counts as the largest body. */
export function bodyBytesOf({ headers }: IncomingMessage): number {
  const length = Number(headers["content-length"]);
  const isKnown = headers["content-encoding"] === undefined && Number.isSafeInteger(length) && length >= 0;
  return isKnown ? length : BODY_BYTES_MAX;
}
