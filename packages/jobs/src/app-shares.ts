import type { QueueUse, StreamUse } from "@tutti/ports/jobs";
import { TuttiError } from "@tutti/protocol";
import { assert } from "@tutti/units";
import { JOBS_PENDING_MAX } from "./job-window.ts";

/** The streams that applications share. */
export type SharedStream = "queue" | "results" | "dead";

const AGAIN_MS = 10_000;
const FIRST_LOOK_MS = 500;
const MIB = 1_048_576;

/**
 * The share of an application in a stream: it may hold no more than is still free. Alone it may fill a half, two that
 * fill it together a third each, and whoever comes next finds room. (Dynamic thresholds: Choudhury and Hahne, "Dynamic
 * Queue Length Thresholds for Shared-Memory Packet Switches", 1998, with α = 1.) The server gives out so many jobs of a
 * model until some are done: these places are shared in the same way.
 *
 * Each runner looks at the streams now and then and counts what it adds itself meanwhile. What others add between two
 * looks comes on top.
 */
export class AppShares {
  readonly #streams: Readonly<Record<SharedStream, Amounts>> = {
    queue: new Amounts(),
    results: new Amounts(),
    dead: new Amounts(),
  };
  /** Jobs in the queue, by model and application. */
  readonly #jobs = new Amounts();
  readonly #uses = new Map<SharedStream, StreamUse>();
  #queue: QueueUse | undefined;

  lookAtQueue(read: () => Promise<QueueUse>): Promise<QueueUse> {
    return this.#jobs.look(async () => (this.#queue = await this.look("queue", read)));
  }

  /** One look at a stream at a time. */
  async look<Use extends StreamUse>(stream: SharedStream, read: () => Promise<Use>): Promise<Use> {
    return this.#streams[stream].look(async () => {
      const use = await read();
      this.#uses.set(stream, use);
      return use;
    });
  }

  /** Bytes that are on their way into the stream: they count until the first look that begins after `arrived`. */
  add(stream: SharedStream, app: string, bytes: number): void {
    this.#streams[stream].add(app, bytes);
  }
  /** These bytes are there, or will never be. */
  arrived(stream: SharedStream, app: string, bytes: number): void {
    this.#streams[stream].arrived(app, bytes);
  }

  addJob({ model, app }: JobPlace, bytes: number): void {
    this.add("queue", app, bytes);
    this.#jobs.add(placeOf(model, app), 1);
    this.#jobs.add(model, 1);
  }
  jobArrived({ model, app }: JobPlace, bytes: number): void {
    this.arrived("queue", app, bytes);
    this.#jobs.arrived(placeOf(model, app), 1);
    this.#jobs.arrived(model, 1);
  }

  hasRoom(stream: SharedStream, app: string, bytes = 0): boolean {
    const { held, free } = this.#of(stream, app);
    return held + bytes <= free;
  }

  /**
   * Dead letters don't matter here: an operator puts them into the queue again when there are many, and jobs that have
   * no room for a letter are bounded by the queue.
   *
   * @throws {TuttiError} OVERLOADED, where a further job of the application would go beyond its share; UNAVAILABLE
   * before the first look at the queue
   */
  check({ model, app }: JobPlace, bytes: number): void {
    if (this.#queue === undefined)
      throw new TuttiError("TUTTI_UNAVAILABLE", "this job runner has not reached the queue yet", {
        retryAfterMs: FIRST_LOOK_MS,
      });
    for (const stream of STREAMS) {
      if (this.hasRoom(stream, app, stream === "queue" ? bytes : 0)) continue;
      const { held, free } = this.#of(stream, app);
      const has = `${mebibytes(held)} of ${HELD[stream].what}`;
      throw beyond({ app, has, free: mebibytes(free), advice: HELD[stream].advice });
    }
    const jobs = (this.#queue.jobsByApp.get(model)?.get(app) ?? 0) + this.#jobs.of(placeOf(model, app));
    const free = Math.max(0, JOBS_PENDING_MAX - (this.#queue.jobs.get(model) ?? 0) - this.#jobs.of(model));
    if (jobs + 1 > free)
      throw beyond({ app, has: `${jobs} jobs of ${model} in the queue`, free: `${free}`, advice: HELD.queue.advice });
  }

  #of(stream: SharedStream, app: string): { readonly held: number; readonly free: number } {
    const use = this.#uses.get(stream);
    if (use === undefined) return { held: 0, free: Infinity };
    const amounts = this.#streams[stream];
    const held = (use.bytesByApp.get(app) ?? 0) + amounts.of(app);
    return { held, free: Math.max(0, use.bytesFree - amounts.total) };
  }
}

/** The queue and the place in it that a job is for. */
interface JobPlace {
  readonly model: string;
  readonly app: string;
}
/** No name has a dot. */
const placeOf = (model: string, app: string): string => `${model}.${app}`;

/** Sums by name. */
class Sums {
  readonly #byName = new Map<string, number>();
  total = 0;

  of(name: string): number {
    return this.#byName.get(name) ?? 0;
  }
  add(name: string, amount: number): void {
    const sum = this.of(name) + amount;
    if (sum === 0) this.#byName.delete(name);
    else this.#byName.set(name, sum);
    this.total += amount;
  }
  addAll(other: Sums): void {
    for (const [name, amount] of other.#byName) this.add(name, amount);
  }
}

/** Amounts that this runner has added and no look has seen for certain. */
class Amounts {
  /** On their way: a look that ends now may have missed them. */
  readonly #under = new Sums();
  /** Arrived since the last look began. */
  #since = new Sums();
  /** Arrived before a look that is under way. */
  #before = new Sums();
  #isLooking = false;

  get total(): number {
    return this.#under.total + this.#since.total + this.#before.total;
  }
  of(name: string): number {
    return this.#under.of(name) + this.#since.of(name) + this.#before.of(name);
  }
  add(name: string, amount: number): void {
    this.#under.add(name, amount);
  }
  arrived(name: string, amount: number): void {
    this.#under.add(name, -amount);
    this.#since.add(name, amount);
  }

  async look<Use>(read: () => Promise<Use>): Promise<Use> {
    assert(!this.#isLooking, "two looks at once would forget amounts of one another");
    this.#isLooking = true;
    [this.#before, this.#since] = [this.#since, new Sums()];
    try {
      return await read();
    } catch (error) {
      this.#since.addAll(this.#before);
      throw error;
    } finally {
      this.#before = new Sums();
      this.#isLooking = false;
    }
  }
}

/** The queue last: it fills where the results are full, and its advice would mislead. */
const STREAMS = ["results", "queue"] as const;
const HELD: Readonly<Record<(typeof STREAMS)[number], { readonly what: string; readonly advice: string }>> = {
  queue: { what: "jobs in the queue", advice: "submit more when some of them are done" },
  results: {
    what: "results",
    advice: "results end after seven days; an operator enlarges their bucket (`nats stream edit KV_tutti_results`)",
  },
};

interface Beyond {
  readonly app: string;
  readonly has: string;
  readonly free: string;
  readonly advice: string;
}
function beyond({ app, has, free, advice }: Beyond): TuttiError {
  const text = `${app} has ${has}, and may hold no more than is free (${free}): ${advice}`;
  return new TuttiError("TUTTI_OVERLOADED", text, { retryAfterMs: AGAIN_MS });
}

const mebibytes = (bytes: number): string => `${(bytes / MIB).toFixed(bytes < 10 * MIB ? 1 : 0)} MiB`;
