import { type NatsConnection, connectNats, readCredentials } from "@tutti/bus-nats";
import { StatsReported, subjectsOf } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";
import { FrameReader } from "@tutti/wire";

/** Totals of all actors since their start. */
export interface Figures {
  readonly batches: number;
  readonly items: number;
  /** Messages over links, and the bytes of their payloads. */
  readonly linkMessages: number;
  readonly linkBytes: number;
}

/** Collects the figures that actors report once a second. */
export class FigureTap {
  readonly #nats: NatsConnection;
  readonly #last = new Map<ActorKey, StatsReported>();
  readonly #fresh = new Set<ActorKey>();
  #onFresh: () => void = () => undefined;

  private constructor(nats: NatsConnection) {
    this.#nats = nats;
    const reader = new FrameReader().on(StatsReported, (stats) => {
      this.#last.set(stats.key, stats);
      this.#fresh.add(stats.key);
      this.#onFresh();
    });
    nats.control.subscribe(subjectsOf("main").stats("*"), ({ payload }) => void reader.read(payload));
  }

  static async open(servers: string, credentials: string): Promise<FigureTap> {
    return new FigureTap(
      await connectNats({ servers, name: "bench-scale", credentials: readCredentials(credentials) }),
    );
  }

  /** Totals once every known actor has reported again. */
  async read(): Promise<Figures> {
    this.#fresh.clear();
    await new Promise<void>((resolve) => {
      this.#onFresh = () => {
        if (this.#last.size > 0 && [...this.#last.keys()].every((key) => this.#fresh.has(key))) resolve();
      };
    });
    const sum = (name: string): number =>
      [...this.#last.values()].reduce((total, { figures }) => total + (figures[name] ?? 0), 0);
    const ofBatchers = (name: string): number =>
      [...this.#last.values()].reduce(
        (total, { role, figures }) => total + (role === "batcher" ? (figures[name] ?? 0) : 0),
        0,
      );
    return {
      batches: ofBatchers("batches"),
      items: ofBatchers("items"),
      linkMessages: sum("linkMessagesOut"),
      linkBytes: sum("linkBytesOut"),
    };
  }

  close(): Promise<void> {
    return this.#nats.close();
  }
}
