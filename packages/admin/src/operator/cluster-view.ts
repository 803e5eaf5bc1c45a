/** The cluster as an operator's command hears it: each actor's last heartbeat, and its reports of the last seconds. */
import type { Bus } from "@tutti/ports/bus";
import { DEFAULT_SUB_CLUSTER, Heartbeat, type Role, StatsReported, subjectsOf } from "@tutti/protocol";
import type { ActorKey, GpuId } from "@tutti/units";
import { FrameReader } from "@tutti/wire";
import { IDLE_BEAT_MS } from "../seconds-option.ts";

/** Actors known at once; beyond, new ones are not shown (T7). */
const ACTORS_MAX = 4_096;
/** An actor that is silent for so long is no longer shown. */
const FORGET_MS = 10_000;
/** Period of the reports that rates are computed from. */
const RATE_WINDOW_MS = 3_000;
const REPORTS_MAX = 8;
/** Number of heartbeats for a clock's offset, which is their minimum: delays can only increase it. */
const OFFSETS_MAX = 16;

export type Figures = Readonly<Record<string, number>>;

export interface HeardActor {
  readonly key: ActorKey;
  beat: Heartbeat;
  /** By the command's own clock, in milliseconds. */
  beatAt: number;
  /** Oldest first; rates are differences between the first and the last. */
  readonly reports: { readonly stats: StatsReported; readonly heardAt: number }[];
  /** Our time less the actor's at its last heartbeats, in microseconds. */
  readonly offsets: number[];
}

/** The sub-cluster of a ranker (leader or spare) or an executor. */
export const subClusterOf = ({ beat }: HeardActor): string | undefined =>
  beat.role === "ranker" ? (beat.subCluster ?? DEFAULT_SUB_CLUSTER) : beat.gpus?.[0]?.subCluster;

export interface Wholeness {
  readonly actors: Readonly<Partial<Record<Role, number>>>;
  readonly leaders: number;
  /** Accelerators that may be granted. */
  readonly serving: readonly GpuId[];
  readonly threads: number;
}

export interface ViewClock {
  /** Monotonic milliseconds. */
  now(): number;
  /** Microseconds since the epoch. */
  wall(): number;
}

const REAL: ViewClock = { now: () => performance.now(), wall: () => Date.now() * 1_000 };

export class ClusterView {
  readonly #clock: ViewClock;
  readonly #actors = new Map<ActorKey, HeardActor>();
  readonly #reader: FrameReader;
  #hearers: (() => void)[] = [];
  /** Time from which every living actor has sent a heartbeat. */
  #knowsAllAt = 0;

  constructor(clock: ViewClock = REAL) {
    this.#clock = clock;
    this.#reader = new FrameReader()
      .on(Heartbeat, (beat, sender) => {
        if (beat.key === sender && Heartbeat.accepts(beat)) this.hearBeat(beat);
      })
      .on(StatsReported, (stats, sender) => {
        if (stats.key === sender && StatsReported.accepts(stats)) this.hearStats(stats);
      });
  }

  listen(bus: Bus, cluster: string): { stop(): void } {
    this.#knowsAllAt = this.#clock.now() + IDLE_BEAT_MS;
    const subjects = subjectsOf(cluster);
    const listening = [subjects.beat("*"), subjects.stats("*")].map((subject) =>
      bus.subscribe(subject, (delivery) => void this.#reader.read(delivery.payload)),
    );
    return { stop: () => listening.forEach((subscription) => subscription.stop()) };
  }

  hearBeat(beat: Heartbeat): void {
    const known = this.#actors.get(beat.key);
    if (beat.leaving) this.#actors.delete(beat.key);
    else if (known !== undefined || this.#actors.size < ACTORS_MAX) {
      const offset = this.#clock.wall() - beat.sentAt;
      const actor = known ?? { key: beat.key, beat, beatAt: 0, reports: [], offsets: [] };
      actor.beat = beat;
      actor.beatAt = this.#clock.now();
      actor.offsets.push(offset);
      if (actor.offsets.length > OFFSETS_MAX) actor.offsets.shift();
      this.#actors.set(beat.key, actor);
    }
    this.recheck();
  }

  hearStats(stats: StatsReported): void {
    const actor = this.#actors.get(stats.key);
    if (actor === undefined) return;
    const now = this.#clock.now();
    actor.reports.push({ stats, heardAt: now });
    const [, second] = actor.reports;
    // The oldest report may lie just outside the window, so that rates cover at least the window.
    if (actor.reports.length > REPORTS_MAX || (second !== undefined && second.heardAt < now - RATE_WINDOW_MS))
      actor.reports.shift();
    this.recheck();
  }

  actors(): HeardActor[] {
    const oldest = this.#clock.now() - FORGET_MS;
    for (const [key, { beatAt }] of this.#actors) if (beatAt < oldest) this.#actors.delete(key);
    return [...this.#actors.values()].sort(
      (a, b) =>
        ROLE_ORDER.indexOf(a.beat.role) - ROLE_ORDER.indexOf(b.beat.role) || a.beat.startedAt - b.beat.startedAt,
    );
  }

  silentMs(actor: HeardActor): number {
    return this.#clock.now() - actor.beatAt;
  }

  /** Looks again whether what is waited for is there: something else than an actor was heard. */
  recheck(): void {
    for (const hear of this.#hearers) hear();
  }

  /** Resolves as soon as `isEnough`, at the latest after `waitMs`. @returns whether it was enough */
  async until(isEnough: () => boolean, waitMs: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const hear = (): void => {
      if (isEnough()) resolve(true);
    };
    const limit = setTimeout(() => resolve(isEnough()), waitMs);
    let known: NodeJS.Timeout;
    const hearWhenAllAreKnown = (): void => {
      hear();
      // Timers may fire early by this clock.
      if (!this.knowsAll) known = setTimeout(hearWhenAllAreKnown, Math.ceil(this.#knowsAllAt - this.#clock.now()));
    };
    this.#hearers.push(hear);
    hearWhenAllAreKnown();
    const enough = await promise;
    clearTimeout(limit);
    clearTimeout(known!);
    this.#hearers = this.#hearers.filter((other) => other !== hear);
    return enough;
  }

  /** Whether every living actor was heard. */
  get knowsAll(): boolean {
    return this.#clock.now() >= this.#knowsAllAt;
  }

  /** Whether every living actor was heard, and all of them have sent so many reports; rates need two. */
  hasReports(least: number): boolean {
    return (
      this.#actors.size > 0 &&
      this.knowsAll &&
      [...this.#actors.values()].every(({ reports }) => reports.length >= least)
    );
  }

  wholeness(): Wholeness {
    const counts: Partial<Record<Role, number>> = {};
    const serving: GpuId[] = [];
    let leaders = 0;
    let threads = 0;
    for (const actor of this.actors()) {
      const { role, epoch, gpus } = actor.beat;
      counts[role] = (counts[role] ?? 0) + 1;
      if (role === "ranker" && (epoch ?? 0) > 0) leaders++;
      serving.push(...(gpus ?? []).filter((gpu) => gpu.serving).map(({ gpu }) => gpu));
      if (role === "batcher") threads += latestOf(actor)?.figures["threads"] ?? 0;
    }
    return { actors: counts, leaders, serving: [...new Set(serving)].sort((a, b) => a - b), threads };
  }
}

/** Names the first thing that `before` has and `now` lacks; undefined: nothing is missing. */
export function lackOf(before: Wholeness, now: Wholeness): string | undefined {
  if (before.leaders > 0 && now.leaders === 0) return "nobody leads the sub-cluster";
  for (const role of ROLE_ORDER) {
    const [had, has] = [before.actors[role] ?? 0, now.actors[role] ?? 0];
    if (has < had) return `${has} of ${had} actors of the role ${role} are there`;
  }
  const missing = before.serving.filter((gpu) => !now.serving.includes(gpu));
  if (missing.length > 0) return `accelerator ${missing.slice(0, 8).join(", ")} does not serve yet`;
  if (now.threads < before.threads) return `${now.threads} of ${before.threads} ModelThreads are held by a batcher`;
  return undefined;
}

export const latestOf = (actor: HeardActor): StatsReported | undefined => actor.reports.at(-1)?.stats;

/** Rate per second between the oldest and the newest kept report; undefined: there are fewer than two. */
export function rateOf(actor: HeardActor, read: (stats: StatsReported) => number): number | undefined {
  const [first, last] = [actor.reports[0]?.stats, actor.reports.at(-1)?.stats];
  if (first === undefined || last === undefined || last.at <= first.at) return undefined;
  return Math.max(0, read(last) - read(first)) / ((last.at - first.at) / 1e6);
}

/** The sum of the known values; undefined: none is known yet. */
export function sumOf(values: readonly (number | undefined)[]): number | undefined {
  const known = values.filter((value) => value !== undefined);
  return known.length === 0 ? undefined : known.reduce((sum, value) => sum + value, 0);
}

export const ROLE_ORDER: readonly Role[] = [
  "ingress",
  "batcher",
  "ranker",
  "executor",
  "profiler",
  "planner",
  "gateway",
  "jobs",
];

export const uptimeUs = ({ beat }: HeardActor): number => Math.max(0, beat.sentAt - beat.startedAt);
export const offsetUs = ({ offsets }: HeardActor): number => Math.min(...offsets);
