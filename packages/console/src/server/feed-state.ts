/** The state that the page shows, from the reports of the cluster's actors. Pure. */
import type { CatalogModel } from "@tutti/actors";
import { type ActorRow, type ClusterView, type LivePlan, actorRows, statusOf } from "@tutti/admin/operators";
import type { FeedActor, FeedGpu, FeedJobs, FeedModel, FeedPlan, FeedRecord, FeedState } from "../index.ts";
import { type AgentAnswered, jobCounts, jobsEndInS } from "@tutti/protocol";
import type { ModelWindow } from "./model-windows.ts";

/** Rows of each table that the page gets; the busiest models are among them. */
export const MODELS_TOLD = 200;
export const GPUS_TOLD = 256;
export const ACTORS_TOLD = 400;
export const JOBS_TOLD = 200;

export interface FeedSources {
  readonly nowMs: number;
  readonly view: ClusterView;
  readonly models: readonly CatalogModel[];
  /** By the model's number. */
  readonly windows: ReadonlyMap<number, ModelWindow>;
  readonly agents: readonly AgentAnswered[];
  readonly missing: readonly string[];
  readonly record: FeedRecord;
}

/** Figures of a model, as rows and the history have them. */
export function modelFigures(
  { spec }: CatalogModel,
  window: ModelWindow | undefined,
): Omit<FeedModel, "state" | "reason"> {
  const { refused = {}, queue = 0, p99Us = 0 } = window ?? {};
  return {
    name: spec.name,
    number: spec.number,
    offered: rounded(window?.offered),
    good: rounded(window?.good),
    late: rounded(window?.late),
    refused: Object.fromEntries(Object.entries(refused).map(([code, rate]) => [code, rounded(rate) ?? 0])),
    queue,
    batchMean: rounded(window?.batchMean),
    target: window?.target ?? null,
    p99Ms: p99Us === 0 ? null : rounded(p99Us / 1_000),
    sloMs: spec.slo / 1_000,
  };
}

/** The busiest first. */
export const byRate = (a: Pick<FeedModel, "name" | "offered">, b: Pick<FeedModel, "name" | "offered">): number =>
  (b.offered ?? 0) - (a.offered ?? 0) || (a.name < b.name ? -1 : 1);

export function feedState({ nowMs, view, models, windows, agents, missing, record }: FeedSources): FeedState {
  const status = statusOf(
    view,
    models.map(({ spec, status: known }) => ({ spec, status: known })),
  );
  const rows = models.map((model, i): FeedModel => {
    const { state, reason } = status.models[i]!;
    return { ...modelFigures(model, windows.get(model.spec.number)), state, reason };
  });
  rows.sort(byRate);
  const gpus = status.accelerators.map(({ gpu, type, host, subCluster, serving, busy }): FeedGpu => {
    return { gpu, type, host, subCluster, serving, busy: rounded(busy) };
  });
  const startedAt = new Map(view.actors().map(({ beat }) => [`${beat.host} ${beat.pid}`, beat.startedAt / 1_000]));
  const actors = actorRows(view, agents).map((row) => feedActor(row, startedAt.get(`${row.host} ${row.pid}`) ?? nowMs));
  const jobs = feedJobs(view);
  return {
    at: Math.round(nowMs),
    missing,
    models: rows.slice(0, MODELS_TOLD),
    modelsLeft: Math.max(0, rows.length - MODELS_TOLD),
    gpus: gpus.slice(0, GPUS_TOLD),
    gpusLeft: Math.max(0, gpus.length - GPUS_TOLD),
    actors: actors.slice(0, ACTORS_TOLD),
    actorsLeft: Math.max(0, actors.length - ACTORS_TOLD),
    jobs: jobs.slice(0, JOBS_TOLD),
    jobsLeft: Math.max(0, jobs.length - JOBS_TOLD),
    record,
  };
}

/** The longest queues first. */
function feedJobs(view: ClusterView): FeedJobs[] {
  const reports = view.actors().flatMap(({ reports: heard }) => heard.at(-1)?.stats ?? []);
  const rows = [...jobCounts(reports)].map(([model, { queued, rate, dead }]): FeedJobs => {
    return {
      model,
      queued,
      rate: rounded(rate) ?? 0,
      endsInS: jobsEndInS(queued, rate),
      dead: Object.fromEntries(dead),
    };
  });
  return rows
    .filter(({ queued, dead }) => queued > 0 || Object.keys(dead).length > 0)
    .sort((a, b) => b.queued - a.queued || (a.model < b.model ? -1 : 1));
}

const feedActor = (row: ActorRow, startedAt: number): FeedActor => ({
  actor: row.actor,
  role: row.role,
  host: row.host,
  pid: row.pid,
  process: row.process,
  startedAt: Math.round(startedAt),
  epoch: row.epoch ?? null,
  duty: row.duty,
  subCluster: row.subCluster ?? null,
  restarts: row.restarts ?? null,
  queue: row.queue,
  health: row.health,
});

/**
 * Rounds to three digits. Finer changes are invisible to a reader, and would only make every message differ from the
 * last.
 */
const rounded = (value: number | undefined): number | null =>
  value === undefined || !Number.isFinite(value) ? null : Number(value.toPrecision(3));

export function feedPlan(plan: LivePlan, nowMs: number): FeedPlan {
  const agoMs = (s: number): number => Math.round(nowMs - s * 1_000);
  const moves = new Map(plan.difference.models.map((move) => [move.model, move]));
  return {
    epoch: plan.epoch,
    madeAt: plan.madeS === null ? null : agoMs(plan.madeS),
    seenAt: plan.seenS === null ? null : agoMs(plan.seenS),
    models: plan.current.models.slice(0, MODELS_TOLD).map((model) => {
      const move = moves.get(model.model);
      return {
        model: model.model,
        subCluster: model.subCluster,
        rate: rounded(model.rate ?? undefined),
        work: rounded(model.work ?? undefined),
        memoryBytes: model.memoryBytes,
        next: move?.to ?? null,
        state: move?.state ?? null,
      };
    }),
    accelerators: plan.difference.accelerators.slice(0, GPUS_TOLD),
    leftOut: plan.leftOut.slice(0, MODELS_TOLD),
    advice: plan.advice,
    reasons: plan.reasons
      .slice(-REASONS_SHOWN)
      .toReversed()
      .map(({ ageS, about, text }) => ({ at: agoMs(ageS), about, text })),
  };
}
const REASONS_SHOWN = 20;
