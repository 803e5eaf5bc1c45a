/**
 * Statistics of the last second, computed from the figures that actors report. The figures are totals since each
 * actor's start, so nothing is missed between two readings.
 */
import type { StatsReported } from "@tutti/protocol";
import type { ActorKey, GpuId } from "@tutti/units";

export interface GpuLoad {
  readonly gpu: GpuId;
  /** Share of the time spent running batches, 0 … 1. */
  readonly busy: number;
  /** Time spent running batches: it adds up over readings, even if reports come late. */
  readonly busyUs: number;
  readonly batches: number;
  readonly items: number;
}

export interface ThreadLoad {
  readonly name: string;
  readonly batches: number;
  readonly items: number;
  readonly queued: number;
  /** Delays that the scheduler sets aside now, in microseconds. */
  readonly delaysUs: {
    readonly ctrl: number;
    readonly perItem: number;
    readonly respond: number;
    readonly guard: number;
    /** Time that batches keep in hand, so that one which ends later than planned is still in time. */
    readonly reserve: number;
    /** The former name of `reserve`, until the next release. */
    readonly margin: number;
  };
  /** Measured delays, in microseconds: means since the last reading; 0: there was none. */
  readonly measuredUs: {
    /** From an ingress's receipt of a request until its batcher knows it. */
    readonly arrive: number;
    /** From a grant until its batch could start, pulls included. */
    readonly start: number;
    /** From when a grant was due until the batcher has it. */
    readonly grant: number;
  };
  /** Batches that started later than the delay set aside: about 5 in 100 while delays are stable. */
  readonly lateStarts: number;
  /** Batches granted in time, but answered late. */
  readonly lateAnswers: number;
}

/** Counts since the last reading. */
export interface Reading {
  readonly seconds: number;
  readonly requests: number;
  readonly inTime: number;
  readonly late: number;
  readonly refused: number;
  /** Refused requests by code. */
  readonly reasons: Readonly<Record<string, number>>;
  /** From arrival to answer, mean over those in time; 0: there were none. */
  readonly meanLatencyUs: number;
  readonly batches: number;
  readonly items: number;
  readonly gpus: readonly GpuLoad[];
  readonly threads: readonly ThreadLoad[];
}

/** Actors remembered at once; silent ones are dropped. */
const ACTORS_MAX = 4_096;
const SILENT_MS = 10_000;

interface Heard {
  readonly latest: StatsReported;
  readonly heardAt: number;
}

export class StatusBoard {
  readonly #heard = new Map<ActorKey, Heard>();
  readonly #read = new Map<ActorKey, StatsReported>();
  #readAt: number;

  constructor(nowMs: number) {
    this.#readAt = nowMs;
  }

  hear(stats: StatsReported, nowMs: number): void {
    if (!this.#heard.has(stats.key) && this.#heard.size >= ACTORS_MAX) return;
    this.#heard.set(stats.key, { latest: stats, heardAt: nowMs });
  }

  read(nowMs: number): Reading {
    const seconds = (nowMs - this.#readAt) / 1000;
    this.#readAt = nowMs;
    const total: Record<string, number> = {};
    const gpus: GpuLoad[] = [];
    const threads: ThreadLoad[] = [];
    for (const [key, { latest, heardAt }] of this.#heard) {
      const last = this.#read.get(key);
      if (latest.role === "ingress") addDifferences(total, latest.figures, last?.figures);
      if (latest.role === "executor") gpus.push(...gpuLoads(latest, last));
      if (latest.role === "batcher") threads.push(...threadLoads(latest, last));
      this.#read.set(key, latest);
      if (nowMs - heardAt > SILENT_MS) this.#forget(key);
    }
    gpus.sort((a, b) => a.gpu - b.gpu);
    threads.sort((a, b) => b.items - a.items || (a.name < b.name ? -1 : 1));
    const ok = total["ok"] ?? 0;
    const late = total["late"] ?? 0;
    return {
      seconds,
      requests: total["requests"] ?? 0,
      inTime: ok - late,
      late,
      refused: total["refused"] ?? 0,
      reasons: reasonsOf(total),
      meanLatencyUs: ok === 0 ? 0 : (total["latencyUs"] ?? 0) / ok,
      batches: gpus.reduce((sum, gpu) => sum + gpu.batches, 0),
      items: gpus.reduce((sum, gpu) => sum + gpu.items, 0),
      gpus,
      threads,
    };
  }

  #forget(key: ActorKey): void {
    this.#heard.delete(key);
    this.#read.delete(key);
  }
}

type Figures = Readonly<Record<string, number>>;

const difference = (name: string, now: Figures, before: Figures | undefined): number =>
  Math.max(0, (now[name] ?? 0) - (before?.[name] ?? 0));

/** The increase of a total divided by the increase of its count, since the last reading. */
function meanOf(total: string, count: string, now: Figures, before: Figures | undefined): number {
  const counted = difference(count, now, before);
  return counted === 0 ? 0 : Math.round(difference(total, now, before) / counted);
}

function addDifferences(total: Record<string, number>, now: Figures, before: Figures | undefined): void {
  for (const name of Object.keys(now)) total[name] = (total[name] ?? 0) + difference(name, now, before);
}

const REFUSED = "refused.TUTTI_";

function reasonsOf(total: Figures): Record<string, number> {
  const reasons = Object.entries(total).filter(([name, count]) => name.startsWith(REFUSED) && count > 0);
  return Object.fromEntries(reasons.map(([name, count]) => [name.slice(REFUSED.length), count]));
}

function gpuLoads(now: StatsReported, before: StatsReported | undefined): GpuLoad[] {
  const passedUs = before === undefined ? 0 : now.at - before.at;
  return (now.perGpu ?? []).map(({ gpu, figures }) => {
    const earlier = before?.perGpu?.find((candidate) => candidate.gpu === gpu)?.figures;
    const busyUs = difference("busyUs", figures, earlier);
    return {
      gpu,
      busy: passedUs > 0 ? Math.min(1, busyUs / passedUs) : 0,
      busyUs,
      batches: difference("batches", figures, earlier),
      items: difference("items", figures, earlier),
    };
  });
}

function threadLoads(now: StatsReported, before: StatsReported | undefined): ThreadLoad[] {
  return (now.perThread ?? []).map(({ thread, name, figures }) => {
    const reserve = figures["reserveUs"] ?? figures["marginUs"] ?? 0;
    const earlier = before?.perThread?.find((candidate) => candidate.thread === thread)?.figures;
    return {
      name,
      batches: difference("batches", figures, earlier),
      items: difference("items", figures, earlier),
      queued: figures["queued"] ?? 0,
      delaysUs: {
        ctrl: figures["ctrlUs"] ?? 0,
        perItem: figures["perItemUs"] ?? 0,
        respond: figures["respondUs"] ?? 0,
        guard: figures["guardUs"] ?? 0,
        reserve,
        margin: reserve,
      },
      measuredUs: {
        arrive: meanOf("arrivalLagUs", "arrivals", figures, earlier),
        start: meanOf("startDelayUs", "finished", figures, earlier),
        grant: meanOf("grantLagUs", "grants", figures, earlier),
      },
      lateStarts: difference("lateStarts", figures, earlier),
      lateAnswers: difference("lateAnswers", figures, earlier),
    };
  });
}
