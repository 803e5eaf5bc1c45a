import type { ListedModel } from "@tutti/client/registries";
import { type ProfilePoints, threadName } from "@tutti/protocol";
import { type Instant, formatDuration, micros } from "@tutti/units";
import { renderTable } from "../table.ts";

const HEADINGS = ["model", "version", "state", "SLO", "max batch", "l(1)", "l(max)", "executors"];

/**
 * The table of served models, one row for each bucket, followed by the reasons of those that are not ready or not on
 * all types.
 */
export function renderModels(models: readonly ListedModel[]): string {
  const rows = models.flatMap((model) => {
    const { spec, status } = model;
    return spec.buckets.map((_, bucket) => {
      const points = status?.profiles[bucket] ?? [];
      return [
        threadName(spec, bucket),
        spec.version,
        stateOf(model),
        formatDuration(spec.slo),
        String(spec.batchSizeMax),
        latencyAt(points, "first"),
        latencyAt(points, "last"),
        status?.executorTypes.join(", ") ?? "",
      ];
    });
  });
  const reasons = models.map((model) => reasonOf(model)).filter((reason) => reason !== undefined);
  return [renderTable(HEADINGS, rows), ...reasons].filter((part) => part !== "").join("\n");
}

/** For programs: latencies in microseconds, in the form that `--profile` accepts. */
export function modelsAsJson(models: readonly ListedModel[]): unknown[] {
  return models.map((model) => modelAsJson(model));
}

function modelAsJson(model: ListedModel): unknown {
  const { spec, status, parked } = model;
  return {
    name: spec.name,
    version: spec.version,
    number: spec.number,
    state: stateOf(model),
    ...(parked !== undefined && { parkedSince: timeOf(parked.since) }),
    reason: status?.reason ?? "",
    sloUs: spec.slo,
    batchSizeMax: spec.batchSizeMax,
    patience: spec.patience,
    ...(spec.shares !== undefined && { shares: spec.shares }),
    ...(spec.family !== undefined && { family: spec.family.variants.map(({ name }) => name) }),
    engine: spec.engine,
    inputs: spec.inputs,
    outputs: spec.outputs,
    buckets: spec.buckets,
    executorTypes: status?.executorTypes ?? [],
    profiles: status?.profiles ?? [],
    means: status?.means ?? [],
    ...(status?.byType !== undefined && { byType: status.byType }),
  };
}

function latencyAt(points: ProfilePoints, which: "first" | "last"): string {
  const point = points.at(which === "first" ? 0 : -1);
  return point === undefined ? "-" : formatDuration(point.latency);
}

function stateOf({ status, parked }: ListedModel): string {
  if (parked === undefined) return status?.state ?? "waiting";
  return parked.next === undefined ? "parked" : "waking";
}
const timeOf = (at: Instant): string => new Date(at / 1_000).toISOString();

function reasonOf({ spec: { name, slo }, status, parked }: ListedModel): string | undefined {
  if (parked !== undefined) {
    const { since, next } = parked;
    const what = next === undefined ? "its next request wakes it" : `executors of ${next} load it`;
    return `${name}: parked since ${timeOf(since)}: ${what}`;
  }
  if (status === undefined) return undefined;
  if (status.state !== "ready") return status.reason === "" ? undefined : `${name}: ${status.reason}`;
  const unfit = status.byType?.filter((one) => one.unfit === true) ?? [];
  const texts = unfit.map(({ type, profiles }) => {
    const alone = profiles.reduce((most, [one]) => Math.max(most, one?.latency ?? 0), 0);
    return `${type} (one request takes ${formatDuration(micros(alone))} there)`;
  });
  if (texts.length === 0) return undefined;
  return `${name}: gets no accelerator of ${texts.join(", ")}: too long, with time to wait for one, for its SLO of ${formatDuration(slo)}`;
}
