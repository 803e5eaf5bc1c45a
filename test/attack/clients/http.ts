/** HTTP by node:http, a connection for each request; and raw bytes, which node:http would not send. */
import { request } from "node:http";
import { type Socket, connect } from "node:net";
import type { Writable } from "node:stream";

export interface HttpQuestion {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string;
  readonly timeoutMs?: number;
}

export interface HttpReply {
  /** 0: there was no reply. */
  readonly status: number;
  /** The body, or the reason why there was no reply. */
  readonly text: string;
  readonly ms: number;
}

/** Sends a request; it never rejects. A stream that does not end counts by its status. */
export function ask(url: string, question: HttpQuestion = {}): Promise<HttpReply> {
  const { body, headers = {}, timeoutMs = 10_000 } = question;
  const startedMs = performance.now();
  return new Promise((resolve) => {
    let [status, text] = [0, ""];
    const done = (why = ""): void => {
      clearTimeout(timer);
      resolve({ status, text: text === "" ? why : text, ms: performance.now() - startedMs });
      asking.destroy();
    };
    const method = question.method ?? (body === undefined ? "GET" : "POST");
    const asking = request(url, { method, agent: false, headers }, (response) => {
      status = response.statusCode ?? 0;
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => (text += chunk));
      response.on("error", (error) => done(error.message));
      response.on("end", () => done());
    });
    const timer = setTimeout(() => done(`no whole answer in ${timeoutMs} ms`), timeoutMs);
    asking.on("error", (error) => done(error.message));
    asking.end(body);
  });
}

const placeOf = (url: string): { readonly host: string; readonly port: number } => {
  const { hostname, port } = new URL(url.includes("://") ? url : `tcp://${url}`);
  return { host: hostname, port: Number(port) };
};

/** Opens a connection; undefined where it is refused. Later errors are ignored. */
export function dial(url: string): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ ...placeOf(url), noDelay: true });
    socket.once("connect", () => resolve(socket));
    socket.on("error", () => resolve(undefined));
  });
}

/** Sends bytes. @returns the reply until the other side closes, or until `forMs` are over */
export async function exchange(url: string, sent: string | Uint8Array, forMs: number): Promise<string> {
  const socket = await dial(url);
  if (socket === undefined) return "";
  let heard = "";
  socket.setEncoding("latin1").on("data", (text: string) => (heard += text));
  socket.write(sent);
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, forMs);
    socket.once("close", () => {
      clearTimeout(timer);
      resolve();
    });
  });
  socket.destroy();
  return heard;
}

/**
 * Writes as fast as the other side reads. @returns how many bytes had left when the socket was closed or the time was
 * over
 */
export async function pour(socket: Writable, pieces: Iterable<Uint8Array>, untilMs: number): Promise<number> {
  let sent = 0;
  for (const piece of pieces) {
    if (socket.destroyed || !socket.writable || performance.now() > untilMs) break;
    const isTaken = socket.write(piece);
    sent += piece.byteLength;
    if (!isTaken) await drained(socket, untilMs);
    else await new Promise(setImmediate); // lets the event loop notice that the other side has closed
  }
  return sent;
}

function drained(socket: Writable, untilMs: number): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      for (const event of ["drain", "close"]) socket.off(event, done);
      resolve();
    };
    const timer = setTimeout(done, Math.max(1, untilMs - performance.now()));
    for (const event of ["drain", "close"]) socket.once(event, done);
  });
}

export const pause = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));
