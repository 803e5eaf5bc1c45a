/** Watches which batcher owns which model, with the credentials of a planner, which permit it. It writes nothing. */
import { join } from "node:path";
import { type NatsConnection, connectNats, readCredentials } from "@tutti/bus-nats";
import { BUCKET, Heartbeat, subjectsOf } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";
import { FrameReader, fromJson } from "@tutti/wire";
import type { TuttiUp } from "./tutti-up.ts";

/** Silence after which a batcher counts as gone. */
const SILENT_MS = 3_000;

export class LeaseTap {
  readonly #connection: NatsConnection;
  readonly #holders = new Map<string, ActorKey>();
  readonly #batchers = new Map<ActorKey, { readonly pid: number; readonly heardMs: number }>();
  readonly #waiting = new Set<() => void>();

  private constructor(connection: NatsConnection) {
    this.#connection = connection;
    const beats = new FrameReader().on(Heartbeat, ({ key, pid, leaving }) => {
      if (leaving) this.#batchers.delete(key);
      else this.#batchers.set(key, { pid, heardMs: performance.now() });
      this.#look();
    });
    connection.control.subscribe(subjectsOf("main").beat("batcher"), ({ payload }) => void beats.read(payload));
    connection.store.watch(BUCKET.leases, "model.", {
      onEntry: ({ key, value }) => {
        this.#holders.set(key, (fromJson(value) as { batcher: ActorKey }).batcher);
        this.#look();
      },
      onDelete: (key) => void this.#holders.delete(key),
      onReady: () => undefined,
      onFailure: () => undefined,
    });
  }

  static async open(up: TuttiUp): Promise<LeaseTap> {
    const credentials = readCredentials(join(up.runDirectory, new URL(up.url).port, "creds/planner.nk"));
    return new LeaseTap(await connectNats({ servers: up.url, name: "lease-tap", credentials }));
  }
  close(): Promise<void> {
    return this.#connection.close();
  }

  /** Models by the process of the batcher that owns them; 0: a batcher that was never heard. */
  models(): ReadonlyMap<number, number> {
    const counts = new Map<number, number>();
    const since = performance.now() - SILENT_MS;
    for (const { pid, heardMs } of this.#batchers.values()) if (heardMs > since) counts.set(pid, 0);
    for (const key of this.#holders.values()) {
      const pid = this.#batchers.get(key)?.pid ?? 0;
      counts.set(pid, (counts.get(pid) ?? 0) + 1);
    }
    return counts;
  }

  /** Milliseconds until the condition held; rejects when it does not in time. */
  until(holds: (models: ReadonlyMap<number, number>) => boolean, withinMs: number): Promise<number> {
    const since = performance.now();
    return new Promise((resolve, reject) => {
      const end = (settle: () => void): void => {
        clearTimeout(timer);
        this.#waiting.delete(look);
        settle();
      };
      const look = (): void => {
        if (holds(this.models())) end(() => resolve(performance.now() - since));
      };
      const timer = setTimeout(
        () => end(() => reject(new Error(`after ${withinMs} ms it is ${JSON.stringify([...this.models()])}`))),
        withinMs,
      );
      this.#waiting.add(look);
      look();
    });
  }

  #look(): void {
    for (const look of [...this.#waiting]) look();
  }
}
