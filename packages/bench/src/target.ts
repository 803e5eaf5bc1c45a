/** Where load goes: a NATS subject, an HTTP front door, or a test's own server. */
import type { Micros } from "@tutti/units";

/** One request as a target needs it: everything else about its stream the target knows already. */
export interface Outgoing {
  /** 0, 1, 2 …: never given twice. */
  readonly token: number;
  /** Place of its stream in the mix. */
  readonly stream: number;
  readonly slo: Micros;
}

/** What came back, as far as load cares. */
export interface Answer {
  /** `ok`, or the code of the refusal or error: `TUTTI_OVERLOADED`, `HTTP_502`. */
  readonly outcome: string;
  /** When a refusal says to ask again; 0 where it doesn't. */
  readonly retryAfterMs: number;
}
export const OK = "ok";
export const OK_ANSWER: Answer = { outcome: OK, retryAfterMs: 0 };

export interface Target {
  /**
   * Every answer goes there, also those to requests that had theirs, or were given up. Called once, before anything is
   * sent.
   */
  open(onAnswer: (token: number, answer: Answer) => void): void;
  /** Never blocks. @returns false when it can't leave (too large, no connection): the request counts as unsent */
  send(request: Outgoing): boolean;
  /** Nobody waits for this one any more. */
  forget(token: number): void;
  /** How often a request had to wait here for something of this client's own, such as a free connection. */
  readonly held: number;
  close(): void;
}
