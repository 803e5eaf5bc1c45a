/**
 * The console over HTTP: the page and its files, the live feed, restarts and replays.
 *
 *   CD1. A request that changes state needs the token in a header, which no page of another site can send; there are no
 *        cookies, and a page of another origin is refused (HttpFront).
 *   CD2. The feed and traces are for the page of this gateway alone: no page of another site takes a place at the feed,
 *        not even in a frame.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { ConsoleFile, ConsoleFiles } from "@tutti/console";
import { TuttiError } from "@tutti/protocol";
import type { Act } from "../auth/administration.ts";
import { type HttpAnswer, failureAnswer } from "../http/answers.ts";
import type { BodyReader } from "../http/body-reader.ts";
import { refuseOtherSites } from "../http/page-guard.ts";
import { type LiveFeed, type Replays, type Restarts, type Traces, replayWish } from "@tutti/console/server";

export interface ConsoleParts {
  readonly files: ConsoleFiles;
  readonly feed: LiveFeed;
  readonly replays: Replays;
  /** Undefined: this gateway has no operator's rights. */
  readonly restarts: Restarts | undefined;
  /** Undefined: no Jaeger is configured. */
  readonly traces: Traces | undefined;
  readonly bodies: BodyReader;
  /** Whether a client may read figures and replay. @throws {TuttiError} UNAUTHENTICATED, FORBIDDEN, as a rejection */
  readonly mayRead: (authorization: string | undefined) => Promise<void>;
  /** @throws {TuttiError} UNAUTHENTICATED, FORBIDDEN, as a rejection */
  readonly administer: <Result>(act: Act, run: () => Promise<Result>) => Promise<Result>;
}

/** Largest body of a request, which is a few words. */
const QUESTION_BYTES_MAX = 4_096;

/** Forbids content from elsewhere, inline scripts and styles, and framing. */
const SECURITY_HEADERS = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
} as const;

export class ConsoleApi {
  readonly #parts: ConsoleParts;

  constructor(parts: ConsoleParts) {
    this.#parts = parts;
  }

  /** @returns undefined where the feed has taken the response over. @throws {TuttiError} */
  async answer(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    signal: AbortSignal,
  ): Promise<HttpAnswer | undefined> {
    const { feed, replays, mayRead } = this.#parts;
    const { authorization } = request.headers;
    // The page and its files hold no data; the data comes with a key.
    if (path.startsWith("/console/")) {
      refuseOtherSites(request);
      await mayRead(authorization);
    }
    switch (path) {
      case "/console/feed":
        if (request.method !== "GET") return wrongMethod("GET");
        void feed.join(response, () => mayRead(authorization));
        return undefined;
      case "/console/restart":
        if (request.method !== "POST") return wrongMethod("POST");
        return this.#restart(request);
      case "/console/replay": {
        if (request.method !== "POST") return wrongMethod("POST");
        const wish = replayWish(await this.#question(request));
        return { status: 200, headers: NO_STORE, body: await replays.run(wish, signal) };
      }
      default:
        if (request.method !== "GET" && request.method !== "HEAD") return wrongMethod("GET");
        return path === TRACES || path.startsWith(`${TRACES}/`) ? this.#traces(path) : this.#file(path);
    }
  }

  close(): void {
    this.#parts.feed.close();
    this.#parts.replays.close();
    this.#parts.restarts?.close();
  }

  #restart(request: IncomingMessage): Promise<HttpAnswer> {
    const { administer, restarts } = this.#parts;
    const from = request.socket.remoteAddress ?? "?";
    const act = { what: "restart from the console", from, authorization: request.headers.authorization };
    return administer(act, async () => {
      if (restarts === undefined)
        throw new TuttiError(
          "TUTTI_FORBIDDEN",
          "this gateway has no operator's rights: start it with --repository-creds, or use `tutti restart`",
        );
      const { actor } = (await this.#question(request)) as { readonly actor?: unknown };
      await restarts.restart(actor, from);
      return { status: 200, headers: NO_STORE, body: { restarted: actor } };
    });
  }

  async #traces(path: string): Promise<HttpAnswer> {
    const { traces } = this.#parts;
    if (traces === undefined)
      throw new TuttiError(
        "TUTTI_NOT_FOUND",
        "this gateway knows of no Jaeger: start it with --trace-query <its address>",
      );
    const body = path === TRACES ? await traces.recent() : await traces.trace(path.slice(TRACES.length + 1));
    return { status: 200, headers: NO_STORE, body };
  }

  async #file(path: string): Promise<HttpAnswer> {
    const file = await this.#parts.files.get(path);
    if (file === undefined) return failureAnswer(new TuttiError("TUTTI_NOT_FOUND", "the console has no such file"));
    return { status: file.status, headers: headersOf(file), chunks: [file.bytes] };
  }

  /** Reads a request's JSON object. @throws {TuttiError} INVALID_INPUT */
  #question(request: IncomingMessage): Promise<object> {
    return this.#parts.bodies.withBody(request, (body) => {
      if (body.byteLength > QUESTION_BYTES_MAX) throw wrong("the question is too long");
      let value: unknown;
      try {
        value = JSON.parse(new TextDecoder().decode(body));
      } catch {
        throw wrong("the question is no JSON");
      }
      if (typeof value !== "object" || value === null) throw wrong("the question is no object");
      return Promise.resolve(value);
    });
  }
}

/** Whether a path is the console's. */
export const isConsolePath = (path: string): boolean =>
  path === "/" || path === "/index.html" || path.startsWith("/assets/") || path.startsWith("/console/");

const TRACES = "/console/traces";
const NO_STORE = { "cache-control": "no-store" } as const;
const wrong = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);

const headersOf = ({ type, immutable }: ConsoleFile): Record<string, string> => ({
  ...SECURITY_HEADERS,
  "content-type": type,
  "cache-control": immutable ? "public, max-age=31536000, immutable" : "no-cache",
});

const wrongMethod = (allow: string): HttpAnswer => ({
  status: 405,
  headers: { allow },
  body: { error: `this path takes ${allow}`, code: "TUTTI_INVALID_INPUT", retryable: false },
});
