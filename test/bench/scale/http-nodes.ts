/**
 * Load for several nodes from one process. It uses bench:peers' raw sockets to each node, and prepared requests, so
 * that the generator is not the bottleneck.
 */
import { type Answer, OK_ANSWER, type Outgoing, type Target } from "@tutti/bench";
import { HttpPool } from "../peers/http-pool.ts";

export interface HttpStream {
  /** HTTP port of its node. */
  readonly port: number;
  /** Head and body. */
  readonly request: Buffer;
}

/** A stream of the mix for each node and model. */
export class HttpNodes implements Target {
  /** Requests waiting for a connection: none, since pools have more connections than requests may be under way. */
  readonly held = 0;
  readonly #streams: readonly HttpStream[];
  readonly #pools = new Map<number, HttpPool<Outgoing>>();
  readonly #underWay = new Set<number>();

  constructor(streams: readonly HttpStream[]) {
    this.#streams = streams;
  }

  open(onAnswer: (token: number, answer: Answer) => void): void {
    const settle = ({ token }: Outgoing, answer: Answer): void => {
      if (this.#underWay.delete(token)) onAnswer(token, answer);
    };
    const events = {
      answered: (request: Outgoing, { isOk }: { readonly isOk: boolean }) =>
        settle(request, isOk ? OK_ANSWER : REFUSED),
      lost: (request: Outgoing) => settle(request, FAILED),
    };
    const bytesOf = ({ stream }: Outgoing): Buffer => this.#streams[stream]!.request;
    for (const port of new Set(this.#streams.map((stream) => stream.port)))
      this.#pools.set(port, new HttpPool({ port, bytesOf, events }));
  }

  send(request: Outgoing): boolean {
    this.#underWay.add(request.token);
    this.#pools.get(this.#streams[request.stream]!.port)!.send(request);
    return true;
  }

  forget(token: number): void {
    this.#underWay.delete(token);
  }

  close(): void {
    for (const pool of this.#pools.values()) pool.close();
  }
}

const REFUSED: Answer = { outcome: "HTTP_REFUSED", retryAfterMs: 0 };
const FAILED: Answer = { outcome: "HTTP_FAILED", retryAfterMs: 0 };
