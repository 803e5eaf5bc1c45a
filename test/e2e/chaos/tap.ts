/**
 * Listens to the actors' messages over NATS, with the credentials of a planner, which permit it. It learns which actors
 * live, which ranker leads, which ingress reported which request to a batcher (unless a link or their own process
 * carries that), and how many requests each ingress has taken and answered. It publishes nothing.
 */
import type { Bus } from "@tutti/ports/bus";
import { type NatsConnection, connectNats, readCredentials } from "@tutti/bus-nats";
import { Heartbeat, RequestArrived, StatsReported, subjectsOf } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";
import { FrameReader, fnv1a } from "@tutti/wire";
import type { IngressCount } from "./record.ts";
import { APP, tokenOf } from "./request-code.ts";

const CLUSTER = "main";
/** Silence after which an actor counts as dead. */
const SILENT_MS = 1_500;

export interface TappedLoad {
  readonly sloMs: number;
  /** Token of the request that was sent last. */
  readonly lastToken: () => number;
}

export class Tap {
  readonly takers = new Map<number, Set<ActorKey>>();
  readonly #connection: NatsConnection;
  readonly #load: TappedLoad;
  readonly #beats = new Map<ActorKey, { readonly beat: Heartbeat; readonly atMs: number }>();
  readonly #counts = new Map<ActorKey, IngressCount>();

  private constructor(connection: NatsConnection, load: TappedLoad) {
    this.#connection = connection;
    this.#load = load;
    const subjects = subjectsOf(CLUSTER);
    const bus = connection.control;
    listen(
      bus,
      `${subjects.prefix}.to.*`,
      new FrameReader().on(RequestArrived, (arrival, from) => this.#hear(arrival, from)),
    );
    listen(
      bus,
      subjects.beat("*"),
      new FrameReader().on(Heartbeat, (beat) => this.#onBeat(beat)),
    );
    listen(
      bus,
      subjects.stats("ingress"),
      new FrameReader().on(StatsReported, ({ key, figures }) => {
        const { requests = 0, ok = 0, refused = 0 } = figures;
        this.#counts.set(key, { requests, settled: ok + refused, atMs: performance.now() });
      }),
    );
  }

  static async open(url: string, credentials: string, load: TappedLoad): Promise<Tap> {
    const connection = await connectNats({
      servers: url,
      name: "chaos-tap",
      credentials: readCredentials(credentials),
    });
    const tap = new Tap(connection, load);
    await new Promise((resolve) => connection.control.flush(resolve));
    return tap;
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  /** The ingress of a node's process, or the only actor of another process. */
  actorOf(pid: number): ActorKey | undefined {
    const actors = this.#living().filter((beat) => beat.pid === pid);
    return (actors.find(({ role }) => role === "ingress") ?? actors[0])?.key;
  }

  /** Process of the ranker that leads. */
  leader(): number | undefined {
    const leaders = this.#living().filter(({ role, epoch = 0 }) => role === "ranker" && epoch > 0);
    return leaders.sort((a, b) => (b.epoch ?? 0) - (a.epoch ?? 0))[0]?.pid;
  }

  /** Counts of living ingresses, from figures not older than `sinceMs`. */
  counted(sinceMs: number): Map<ActorKey, IngressCount> {
    const keys = new Set(this.#living().map(({ key }) => key));
    return new Map([...this.#counts].filter(([key, { atMs }]) => keys.has(key) && atMs >= sinceMs));
  }

  #living(): Heartbeat[] {
    const now = performance.now();
    return [...this.#beats.values()].filter(({ atMs }) => now - atMs < SILENT_MS).map(({ beat }) => beat);
  }

  #onBeat(beat: Heartbeat): void {
    if (beat.leaving) this.#beats.delete(beat.key);
    else this.#beats.set(beat.key, { beat, atMs: performance.now() });
  }

  #hear({ app, slo }: RequestArrived, ingress: ActorKey): void {
    const token = app === fnv1a(APP) ? tokenOf(slo, this.#load.sloMs, this.#load.lastToken()) : undefined;
    if (token === undefined) return;
    const takers = this.takers.get(token) ?? new Set();
    this.takers.set(token, takers.add(ingress));
  }
}

function listen(bus: Bus, subject: string, reader: FrameReader): void {
  bus.subscribe(subject, ({ payload }) => void reader.read(payload));
}
