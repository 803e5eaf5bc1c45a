/**
 * One request for a file of bounded size. It follows redirects to HTTPS only, says credentials to nobody but the first
 * origin, and fails in words that name the place and never a secret.
 */
import { setTimeout as pause } from "node:timers/promises";
import { CommandError, EXIT } from "../failure.ts";

export interface HttpGet {
  readonly url: URL;
  /** Names the file in messages. */
  readonly label: string;
  readonly method?: "GET" | "POST" | "PUT";
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent to the origin of `url` only. */
  readonly secrets?: Readonly<Record<string, string>>;
  readonly bytesMax: number;
  /** Default: 5. A signed request is for one address. */
  readonly redirectsMax?: number;
  /** After so long without a byte it fails; default: half a minute. */
  readonly silenceMs?: number;
  readonly signal?: AbortSignal | undefined;
}

/** The environment with credentials, and a signal for when nobody wants the answer any more. */
export interface Asking {
  readonly env: NodeJS.ProcessEnv;
  readonly signal?: AbortSignal | undefined;
}

export interface HttpReply {
  readonly status: number;
  readonly headers: Headers;
  /** Ends with an error beyond `bytesMax`, and when nothing comes for half a minute. */
  readonly chunks: AsyncIterable<Uint8Array>;
}

const REDIRECTS_MAX = 5;
const ATTEMPTS_MAX = 3;
/** Error documents and lists of keys are shorter. */
export const TEXT_BYTES_MAX = 4_194_304;
const PAUSE_MS = 500;
const SILENCE_MS = 30_000;

/** A fault in words of this file. Others' may quote a header, which may hold a secret. */
class Faulty extends Error {}

/**
 * Sends the request and hands over its answer, again where the network fails or the server asks to come back.
 *
 * @param consume - reads the answer; it may be called again after a connection that broke
 * @throws {CommandError} with exit code 3 when nobody can be reached
 */
export async function httpGet<T>(get: HttpGet, consume: (reply: HttpReply) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await once(get, attempt === ATTEMPTS_MAX, consume);
    } catch (error) {
      if (error instanceof CommandError) throw error;
      get.signal?.throwIfAborted();
      if (attempt === ATTEMPTS_MAX) throw unreachable(get, error);
      await pause(PAUSE_MS * attempt, undefined, { signal: get.signal });
    }
  }
}

async function once<T>(get: HttpGet, isLast: boolean, consume: (reply: HttpReply) => Promise<T>): Promise<T> {
  const ending = new AbortController();
  const silence = setTimeout(() => ending.abort(new Faulty("it says nothing")), get.silenceMs ?? SILENCE_MS);
  try {
    const signal = get.signal === undefined ? ending.signal : AbortSignal.any([get.signal, ending.signal]);
    const response = await follow(get, signal);
    const { status, headers } = response;
    if ((status === 429 || status >= 500) && !isLast) throw new Faulty(`HTTP ${status}`);
    const declared = Number(headers.get("content-length") ?? 0);
    if (declared > get.bytesMax) throw tooLarge(get);
    return await consume({ status, headers, chunks: bounded(response, get, silence) });
  } finally {
    clearTimeout(silence);
    ending.abort(); // ends a body that nobody reads to its end
  }
}

async function follow(get: HttpGet, signal: AbortSignal): Promise<Response> {
  const { url: first, label, method = "GET", headers, secrets, redirectsMax = REDIRECTS_MAX } = get;
  let url = first;
  for (let redirects = 0; ; redirects++) {
    const response = await fetch(url, {
      ...{ method, signal, redirect: "manual", body: get.body ?? null },
      // A compressed answer would be longer than it says.
      headers: { "accept-encoding": "identity", ...headers, ...(url.origin === first.origin ? secrets : undefined) },
    });
    const location = response.headers.get("location");
    if (response.status < 300 || response.status >= 400 || location === null || redirectsMax === 0) return response;
    if (redirects === redirectsMax) throw new CommandError(`${label}: more than ${redirectsMax} redirects`);
    const next = URL.canParse(location, url.href) ? new URL(location, url) : undefined;
    const isSafe = next?.protocol === "https:" || (next?.protocol === "http:" && url.protocol === "http:");
    if (next === undefined || !isSafe || next.username !== "")
      throw new CommandError(`${label} redirects to ${next?.protocol ?? "no URL"}, which isn't followed: only https:`);
    await response.body?.cancel();
    url = next;
  }
}

async function* bounded(response: Response, get: HttpGet, silence: NodeJS.Timeout): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    silence.refresh();
    bytes += chunk.byteLength;
    if (bytes > get.bytesMax) throw tooLarge(get);
    yield chunk;
  }
}

const tooLarge = ({ label, bytesMax }: HttpGet): CommandError =>
  new CommandError(`${label} is larger than the ${Math.floor(bytesMax / 1_048_576)} MiB that are taken`);

function unreachable({ label, url }: HttpGet, error: unknown): CommandError {
  const { cause } = error as Error & { cause?: { code?: string; message?: string } };
  const own = error instanceof Faulty ? error.message : "the request is malformed: check its credentials";
  const why = cause?.code ?? cause?.message ?? own;
  const advice = /CERT|SIGNED|TLS/.test(why) ? ": NODE_EXTRA_CA_CERTS names a file with its authority" : "";
  return new CommandError(`${label}: ${url.host} can't be reached (${why})${advice}`, EXIT.unavailable);
}

export async function textOf(reply: HttpReply): Promise<string> {
  return new TextDecoder().decode(await bytesOf(reply));
}

export async function bytesOf({ chunks }: HttpReply): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for await (const chunk of chunks) parts.push(chunk);
  return new Uint8Array(Buffer.concat(parts));
}
