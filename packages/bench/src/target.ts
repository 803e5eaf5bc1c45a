/** Target of the load: a NATS subject, an HTTP front door, or a test's own server. */
import type { Micros } from "@tutti/units";

/** One request as a target needs it: the target knows everything else about its stream already. */
export interface Outgoing {
  /** 0, 1, 2 …: never given twice. */
  readonly token: number;
  /** Place of its stream in the mix. */
  readonly stream: number;
  readonly slo: Micros;
}

/** The part of an answer that load needs. */
export interface Answer {
  /** `ok`, or the code of the refusal or error: `TUTTI_OVERLOADED`, `HTTP_502`. */
  readonly outcome: string;
  /** Time after which a refusal allows a retry; 0 where it gives none. */
  readonly retryAfterMs: number;
}
export const OK = "ok";
export const OK_ANSWER: Answer = { outcome: OK, retryAfterMs: 0 };

export interface Target {
  /**
   * Called once, before the first request. Every answer goes to `onAnswer`, also second ones, and those of requests
   * that were given up.
   */
  open(onAnswer: (token: number, answer: Answer) => void): void;
  /** Never blocks. @returns false when it can't leave (too large, no connection): the request counts as unsent */
  send(request: Outgoing): boolean;
  /** Gives up a request: its answer is no longer needed. */
  forget(token: number): void;
  /** Requests that had to wait here for something of this client's own, such as a free connection. */
  readonly held: number;
  close(): void;
}
