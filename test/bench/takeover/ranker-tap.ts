/**
 * Listens to which ranker leads and to the grants, with the credentials of a planner, which permit it. It publishes
 * nothing.
 */
import { join } from "node:path";
import { type NatsConnection, connectNats, readCredentials } from "@tutti/bus-nats";
import { GpuGranted, Heartbeat, subjectsOf } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";
import { FrameReader } from "@tutti/wire";
import type { TuttiUp } from "../../e2e/tutti-up.ts";

/** Silence after which a ranker counts as gone; those that were ended are removed at once. */
const SILENT_MS = 1_500;

export interface HeardGrant {
  readonly epoch: number;
  readonly atMs: number;
  /** Time since the last grant of an older epoch. */
  readonly pauseMs: number;
}

export class RankerTap {
  readonly #connection: NatsConnection;
  readonly #rankers = new Map<ActorKey, { readonly beat: Heartbeat; readonly atMs: number; readonly count: number }>();
  readonly #waiting = new Set<() => void>();
  /** The first grant of each epoch. */
  readonly firstGrants: HeardGrant[] = [];
  grants = 0;
  epoch = 0;
  #grantedAt = 0;

  private constructor(connection: NatsConnection) {
    this.#connection = connection;
    const { actor, beat } = subjectsOf("main");
    const grants = new FrameReader().on(GpuGranted, ({ epoch }) => this.#onGrant(epoch));
    const beats = new FrameReader().on(Heartbeat, (heartbeat) => this.#onBeat(heartbeat));
    // Only the subjects of grants, and not all messages: reading those would take a core from the measured processes.
    const batchers = new Set<ActorKey>();
    const batcherBeats = new FrameReader().on(Heartbeat, ({ key }) => {
      if (batchers.has(key)) return;
      batchers.add(key);
      connection.control.subscribe(actor(key), ({ payload }) => void grants.read(payload));
    });
    connection.control.subscribe(beat("batcher"), ({ payload }) => void batcherBeats.read(payload));
    connection.control.subscribe(beat("ranker"), ({ payload }) => void beats.read(payload));
  }

  static async open(up: TuttiUp): Promise<RankerTap> {
    const credentials = readCredentials(join(up.runDirectory, new URL(up.url).port, "creds/planner.nk"));
    const connection = await connectNats({ servers: up.url, name: "ranker-tap", credentials });
    const tap = new RankerTap(connection);
    await new Promise((resolve) => connection.control.flush(resolve));
    return tap;
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  /** The process that leads, once `spares` standbys exist and it has granted something. */
  async leader(spares: number): Promise<number> {
    let pid: number | undefined;
    await this.until(() => {
      const since = performance.now() - SILENT_MS;
      const living = [...this.#rankers.values()].filter(({ atMs }) => atMs > since).map(({ beat }) => beat);
      pid = living.find(({ epoch }) => epoch === this.epoch)?.pid;
      // Before the first grant standbys look like leaders of epoch 0.
      return this.epoch > 0 && pid !== undefined && living.length > spares;
    }, 60_000);
    return pid!;
  }

  /**
   * Sends the leader a signal that ends it. @returns ms until the first grant under a newer epoch, and between the last
   * of an older one and it
   */
  async strike(pid: number, signal: NodeJS.Signals): Promise<{ readonly afterMs: number; readonly pauseMs: number }> {
    const { epoch } = this;
    const since = performance.now();
    process.kill(pid, signal);
    for (const [key, { beat }] of this.#rankers) if (beat.pid === pid) this.#rankers.delete(key);
    const found = (): HeardGrant | undefined => this.firstGrants.find((grant) => grant.epoch > epoch);
    await this.until(() => found() !== undefined, 20_000);
    const { atMs, pauseMs } = found()!;
    return { afterMs: atMs - since, pauseMs };
  }

  /** @returns ms between the last grant before now and the next one, of whichever ranker */
  async pause(): Promise<number> {
    const count = this.grants;
    const since = this.#grantedAt;
    let pauseMs = NaN;
    await this.until(() => {
      if (this.grants === count + 1) pauseMs = this.#grantedAt - since;
      return this.grants > count;
    }, 20_000);
    return pauseMs;
  }

  /** Number of heartbeats that a ranker sent since it was struck. */
  beatsOf(pid: number): number {
    return [...this.#rankers.values()].find(({ beat }) => beat.pid === pid)?.count ?? 0;
  }

  /** Resolves when the condition holds after a message was heard; rejects when it does not in time. */
  until(holds: () => boolean, withinMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = (settle: () => void): void => {
        clearTimeout(timer);
        this.#waiting.delete(look);
        settle();
      };
      const look = (): void => {
        if (holds()) end(resolve);
      };
      const timer = setTimeout(
        () => end(() => reject(new Error(`nothing of the kind was heard in ${withinMs} ms`))),
        withinMs,
      );
      this.#waiting.add(look);
      look();
    });
  }

  #onGrant(epoch: number): void {
    this.grants++;
    const atMs = performance.now();
    if (epoch > this.epoch) {
      this.epoch = epoch;
      this.firstGrants.push({ epoch, atMs, pauseMs: atMs - this.#grantedAt });
    }
    this.#grantedAt = atMs;
    this.#look();
  }
  #onBeat(beat: Heartbeat): void {
    if (beat.leaving) this.#rankers.delete(beat.key);
    else {
      const count = (this.#rankers.get(beat.key)?.count ?? 0) + 1;
      this.#rankers.set(beat.key, { beat, atMs: performance.now(), count });
    }
    this.#look();
  }
  #look(): void {
    for (const look of [...this.#waiting]) look();
  }
}
