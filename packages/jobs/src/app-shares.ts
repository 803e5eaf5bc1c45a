import type { StreamUse } from "@tutti/ports/jobs";
import { TuttiError } from "@tutti/protocol";

/** The streams that applications share. */
export type SharedStream = "queue" | "results" | "dead";

interface Known {
  /** Undefined before the first look. */
  use: StreamUse | undefined;
  /** Bytes since the last look began. */
  added: Added;
  /** Bytes before a look that is under way. */
  addedBefore: Added;
}

/** Bytes that this runner has added, by application. */
class Added {
  readonly #byApp = new Map<string, number>();
  total = 0;

  of(app: string): number {
    return this.#byApp.get(app) ?? 0;
  }
  add(app: string, bytes: number): void {
    this.#byApp.set(app, this.of(app) + bytes);
    this.total += bytes;
  }
  addAll(other: Added): void {
    for (const [app, bytes] of other.#byApp) this.add(app, bytes);
  }
}

const AGAIN_MS = 10_000;
const FIRST_LOOK_MS = 500;
const MIB = 1_048_576;

/**
 * The share of an application in a stream: it may hold no more than is still free. Alone it may fill a half, two that
 * fill it together a third each, and whoever comes next finds room. (Dynamic thresholds: Choudhury and Hahne, "Dynamic
 * Queue Length Thresholds for Shared-Memory Packet Switches", 1998, with α = 1.)
 *
 * Each runner looks at the streams now and then and counts what it adds itself meanwhile. What others add between two
 * looks comes on top.
 */
export class AppShares {
  readonly #streams: Readonly<Record<SharedStream, Known>> = { queue: unknown(), results: unknown(), dead: unknown() };

  async look<Use extends StreamUse>(stream: SharedStream, read: () => Promise<Use>): Promise<Use> {
    const known = this.#streams[stream];
    known.addedBefore = known.added;
    known.added = new Added();
    try {
      const use = await read();
      known.use = use;
      known.addedBefore = new Added();
      return use;
    } catch (error) {
      known.added.addAll(known.addedBefore);
      known.addedBefore = new Added();
      throw error;
    }
  }

  add(stream: SharedStream, app: string, bytes: number): void {
    this.#streams[stream].added.add(app, bytes);
  }

  hasRoom(stream: SharedStream, app: string, bytes = 0): boolean {
    const { held, free } = this.#of(stream, app);
    return held + bytes <= free;
  }

  /**
   * @throws {TuttiError} OVERLOADED, where a further job of the application would go beyond its share; UNAVAILABLE
   * before the first look at the queue
   */
  check(app: string, bytes: number): void {
    if (this.#streams.queue.use === undefined)
      throw new TuttiError("TUTTI_UNAVAILABLE", "this job runner has not reached the queue yet", {
        retryAfterMs: FIRST_LOOK_MS,
      });
    for (const stream of STREAMS) {
      if (this.hasRoom(stream, app, stream === "queue" ? bytes : 0)) continue;
      const { held, free } = this.#of(stream, app);
      const text = `${app} has ${mebibytes(held)} of ${HELD[stream].what}, and may hold no more than is free (${mebibytes(free)}): ${HELD[stream].advice}`;
      throw new TuttiError("TUTTI_OVERLOADED", text, { retryAfterMs: AGAIN_MS });
    }
  }

  #of(stream: SharedStream, app: string): { readonly held: number; readonly free: number } {
    const { use, added, addedBefore } = this.#streams[stream];
    if (use === undefined) return { held: 0, free: Infinity };
    const held = (use.bytesByApp.get(app) ?? 0) + added.of(app) + addedBefore.of(app);
    return { held, free: Math.max(0, use.bytesFree - added.total - addedBefore.total) };
  }
}

/** The queue last: it fills where the others are full, and its advice would mislead. */
const STREAMS = ["dead", "results", "queue"] as const;
const HELD: Readonly<Record<SharedStream, { readonly what: string; readonly advice: string }>> = {
  queue: { what: "jobs in the queue", advice: "submit more when some of them are done" },
  results: {
    what: "results",
    advice: "results end after seven days; an operator enlarges their bucket (`nats stream edit KV_tutti_results`)",
  },
  dead: {
    what: "dead letters",
    advice: "an operator looks at them and removes them (`tutti jobs dead --app <name> --remove`)",
  },
};

const unknown = (): Known => ({ use: undefined, added: new Added(), addedBefore: new Added() });
const mebibytes = (bytes: number): string => `${(bytes / MIB).toFixed(bytes < 10 * MIB ? 1 : 0)} MiB`;
