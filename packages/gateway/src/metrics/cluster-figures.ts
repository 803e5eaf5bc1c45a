/** Sums of the actors' reports, which come once a second: by model, by application's refusals, by accelerator. */
import { ERROR_STATUS, MODELS_MAX, type PipelineReport, type Role, StatsReported, isModelName } from "@tutti/protocol";
import { type ActorKey, type GpuId, type Instant, type Micros, between, seconds } from "@tutti/units";
import { PartCounters, keyOf } from "./part-totals.ts";

/** Silence after which an actor's gauges no longer count; its totals stay. */
const SILENT_AFTER: Micros = seconds(5);
/** Actors whose last totals are remembered; beyond, the one with the longest silence is forgotten. */
const ACTORS_MAX = 4_096;

/** The roles of one process begin within this time of each other. */
const BEGAN_TOGETHER: Micros = seconds(2);

type Figures = Readonly<Record<string, number>>;

/** Figures of a model's threads that are summed, by the role that reports them. */
export const SUMMED_FIGURES = {
  ingress: ["offered", "ok", "late", "latencyUs", "queueUs"],
  batcher: ["batches", "items", "lateStarts", "startDelayUs", "finished"],
  /** Requests that ran, and their time in the three parts of a run. */
  executor: ["computed", "computePullUs", "computeRunUs", "computePushUs"],
} as const satisfies Partial<Record<Role, readonly string[]>>;
type SummedFigure = (typeof SUMMED_FIGURES)[keyof typeof SUMMED_FIGURES][number];

/** Running totals since this process began to listen. */
export type ModelTotals = Record<SummedFigure, number> & { readonly refused: Map<string, number> };
export interface GpuTotals {
  busyUs: number;
  /** The part of it that was for jobs. */
  jobsUs: number;
  batches: number;
  items: number;
  refused: number;
}

interface Known {
  stats: StatsReported;
  heardAt: Instant;
}

export class ClusterFigures {
  readonly #actors = new Map<ActorKey, Known>();
  readonly #models = new Map<string, ModelTotals>();
  /** Totals of their jobs, which are in no total of their requests. */
  readonly #jobs = new Map<string, ModelTotals>();
  readonly #gpus = new Map<GpuId, GpuTotals>();
  readonly parts = new PartCounters();
  readonly #openedAt: Instant;

  constructor(openedAt: Instant) {
    this.#openedAt = openedAt;
  }

  get models(): ReadonlyMap<string, Readonly<ModelTotals>> {
    return this.#models;
  }
  get jobs(): ReadonlyMap<string, Readonly<ModelTotals>> {
    return this.#jobs;
  }
  get gpus(): ReadonlyMap<GpuId, Readonly<GpuTotals>> {
    return this.#gpus;
  }

  /** @returns false when the report is malformed */
  hear(stats: StatsReported, now: Instant): boolean {
    if (!isReport(stats)) return false;
    const before = this.#actors.get(stats.key)?.stats;
    this.#actors.delete(stats.key);
    if (this.#actors.size >= ACTORS_MAX) this.#actors.delete(this.#actors.keys().next().value!);
    this.#actors.set(stats.key, { stats, heardAt: now });
    // Leave out totals from before this process began to listen: they begin at zero, as Prometheus expects of a new
    // process. An actor that began with it has counted next to nothing by then.
    const listened = between(this.#openedAt, now);
    const isOlder =
      stats.countedFor === undefined // by a release before this field
        ? listened < BEGAN_TOGETHER
        : stats.countedFor - listened > BEGAN_TOGETHER;
    if (before !== undefined || !isOlder) this.#add(stats, before);
    return true;
  }

  /** Removes a model's totals, when the model is gone. */
  forget(model: string): void {
    this.#models.delete(model);
    this.#jobs.delete(model);
    this.parts.forget(model);
  }

  /** The last reports of the live actors of a role. */
  *ofRole(role: Role, now: Instant): Generator<StatsReported> {
    for (const { stats, heardAt } of this.#actors.values())
      if (stats.role === role && between(heardAt, now) <= SILENT_AFTER) yield stats;
  }

  /** Pipelines that live ingresses serve, by name. */
  pipelines(now: Instant): ReadonlyMap<string, PipelineReport> {
    const all = new Map<string, PipelineReport>();
    for (const { pipelines = [] } of this.ofRole("ingress", now)) for (const one of pipelines) all.set(one.name, one);
    return all;
  }

  *living(now: Instant): Generator<StatsReported> {
    for (const { stats, heardAt } of this.#actors.values()) if (between(heardAt, now) <= SILENT_AFTER) yield stats;
  }

  #add(stats: StatsReported, before: StatsReported | undefined): void {
    addThreads(this.#models, stats.role, stats.perThread, before?.perThread);
    addThreads(this.#jobs, stats.role, stats.perJobThread, before?.perJobThread);
    if (stats.role === "ingress") this.#addParts(stats.perPart ?? [], before?.perPart ?? []);
    if (stats.role !== "executor") return;
    for (const { gpu, figures } of stats.perGpu ?? []) {
      const last = before?.perGpu?.find((row) => row.gpu === gpu)?.figures;
      let totals = this.#gpus.get(gpu);
      if (totals === undefined)
        this.#gpus.set(gpu, (totals = { busyUs: 0, jobsUs: 0, batches: 0, items: 0, refused: 0 }));
      for (const name of GPU_FIGURES) totals[name] += rise(figures, last, name);
    }
  }

  #addParts(parts: NonNullable<StatsReported["perPart"]>, before: NonNullable<StatsReported["perPart"]>): void {
    const last = new Map(before.map((part) => [keyOf(part), part]));
    for (const part of parts) this.parts.add(part, last.get(keyOf(part)));
  }
}

const GPU_FIGURES = ["busyUs", "jobsUs", "batches", "items", "refused"] as const;

type Rows = StatsReported["perThread"];

function addThreads(all: Map<string, ModelTotals>, role: Role, rows: Rows, before: Rows): void {
  for (const { thread, name, figures } of rows ?? []) {
    const model = totalsIn(all, modelOfThread(name));
    if (model === undefined) continue;
    const last = before?.find((row) => row.thread === thread)?.figures;
    if (role === "ingress") addRefusals(model, figures, last);
    for (const figure of summedBy(role)) model[figure] += Math.max(0, rise(figures, last, figure));
  }
}

function totalsIn(all: Map<string, ModelTotals>, name: string): ModelTotals | undefined {
  let model = all.get(name);
  if (model === undefined && all.size < MODELS_MAX) {
    const zeros = Object.values(SUMMED_FIGURES).flatMap((figures) => figures.map((figure) => [figure, 0]));
    model = { ...(Object.fromEntries(zeros) as Record<SummedFigure, number>), refused: new Map() };
    all.set(name, model);
  }
  return model;
}

const summedBy = (role: Role): readonly SummedFigure[] =>
  role === "ingress" || role === "batcher" || role === "executor" ? SUMMED_FIGURES[role] : [];

/** True if names can become labels, too (T8). */
const isReport = (value: unknown): boolean =>
  StatsReported.accepts(value) &&
  [...(value.perThread ?? []), ...(value.perJobThread ?? [])].every(({ name }) => isModelName(modelOfThread(name)));

/** `ocr-rec@W=160` is a bucket of `ocr-rec`. */
const modelOfThread = (name: string): string => name.split("@", 1)[0]!;

/** Increase of a total since the last report; a total that fell began anew from zero. */
function rise(figures: Figures, last: Figures | undefined, name: string): number {
  const now = figures[name] ?? 0;
  const was = last?.[name] ?? 0;
  return now >= was ? now - was : now;
}

function addRefusals(model: ModelTotals, figures: Figures, last: Figures | undefined): void {
  for (const name of Object.keys(figures)) {
    const code = name.startsWith("refused.") ? name.slice("refused.".length) : "";
    if (!Object.hasOwn(ERROR_STATUS, code)) continue;
    model.refused.set(code, (model.refused.get(code) ?? 0) + rise(figures, last, name));
  }
}
