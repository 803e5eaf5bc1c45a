import { type ModelSpec, type ModelStatus, type ProfileMeasured, type ProfilePoints, TYPES_MAX } from "@tutti/protocol";
import { servingTypes } from "@tutti/planning/live";
import { LatencyTable } from "@tutti/profile";
import type { ActorKey, GpuId, Micros } from "@tutti/units";
import { type MeasuredSize, offeredType, pointsOf, refusalOf } from "../runtime/profile-plan.ts";

/** One accelerator that measures one bucket for us. */
interface Measurement {
  readonly executor: ActorKey;
  readonly gpu: GpuId;
  readonly bucket: number;
  result: ProfileMeasured | undefined;
}

/** State of one model on its way from "wanted" to "ready". */
export class ModelWork {
  readonly spec: ModelSpec;
  /** Executors that reported it, and why they could not load it ("" if they could). */
  readonly reports = new Map<
    ActorKey,
    { readonly type: string; readonly gpus: readonly GpuId[]; readonly failure: string }
  >();
  measurements: Measurement[] = [];
  /** State of the trial on one accelerator. A model whose runs do not end must not take all accelerators at once. */
  #trial: "due" | "running" | "done" = "due";

  constructor(spec: ModelSpec) {
    this.spec = spec;
  }

  /** Why one of these executors can't load it; "" if none has reported a failure. */
  failureOf(counts: (executor: ActorKey) => boolean): string {
    for (const [executor, { failure }] of this.reports) if (failure !== "" && counts(executor)) return failure;
    return "";
  }
  /** Executors that have it loaded. */
  get holders(): ActorKey[] {
    return [...this.reports].flatMap(([executor, { failure }]) => (failure === "" ? [executor] : []));
  }
  /** Executors that could not load it. */
  get lacking(): ActorKey[] {
    return [...this.reports].flatMap(([executor, { failure }]) => (failure === "" ? [] : [executor]));
  }
  get types(): string[] {
    return [...new Set([...this.reports.values()].map((report) => report.type))].sort();
  }

  /**
   * Plans the measurements. First every bucket runs once on one accelerator; then all are measured on up to `gpusMax`
   * of these executors, all at once, so that each measures while its neighbours are busy (docs/architecture.md, 5).
   * Types take turns, and each is measured: one left out would serve by the latencies of others.
   */
  planMeasurements(gpusMax: number, executors: readonly ActorKey[]): void {
    const turns = new Map<string, number>();
    const gpus = [...this.reports]
      .filter(([executor]) => executors.includes(executor))
      .flatMap(([executor, { type, gpus }]) =>
        gpus.map((gpu) => {
          const turn = turns.get(type) ?? 0;
          turns.set(type, turn + 1);
          return { executor, gpu, turn };
        }),
      )
      .sort((a, b) => a.turn - b.turn);
    if (gpus.length <= 1) this.#trial = "done";
    if (this.#trial === "due") this.#trial = "running";
    this.measurements = gpus
      .slice(0, this.isTrial ? 1 : Math.max(gpusMax, Math.min(turns.size, TYPES_MAX)))
      .flatMap(({ executor, gpu }) =>
        this.spec.buckets.map((_, bucket) => ({ executor, gpu, bucket, result: undefined })),
      );
  }
  /**
   * Plans the measurement of types whose executors have reported since the others were planned.
   *
   * @returns whether there are any
   */
  planLateTypes(executors: readonly ActorKey[]): boolean {
    if (this.#failure !== undefined) return false;
    const planned = new Set(
      this.measurements.map(({ executor, result }) => result?.type ?? this.reports.get(executor)?.type),
    );
    const before = this.measurements.length;
    for (const [executor, { type, gpus }] of this.reports) {
      const [gpu] = gpus;
      if (gpu === undefined || !executors.includes(executor) || planned.has(type) || planned.size >= TYPES_MAX)
        continue;
      planned.add(type);
      for (const bucket of this.spec.buckets.keys())
        this.measurements.push({ executor, gpu, bucket, result: undefined });
    }
    return this.measurements.length > before;
  }
  get isTrial(): boolean {
    return this.#trial === "running";
  }
  /**
   * All planned measurements are done. @returns whether that was a successful trial, so that the measurements follow
   */
  endTrial(): boolean {
    if (!this.isTrial || this.#failure !== undefined) return false;
    this.#trial = "done";
    this.measurements = [];
    return true;
  }
  get #failure(): string | undefined {
    return this.measurements.find(({ result }) => (result?.failure ?? "") !== "")?.result?.failure;
  }

  forget(executor: ActorKey): void {
    this.reports.delete(executor);
    this.measurements = this.measurements.filter(
      (measurement) => measurement.executor !== executor || measurement.result !== undefined,
    );
  }
  note(measured: ProfileMeasured): void {
    const slot = this.measurements.find(
      (one) => one.executor === measured.executor && one.gpu === measured.gpu && one.bucket === measured.bucket,
    );
    if (slot !== undefined) slot.result = measured;
  }
  get missing(): readonly Measurement[] {
    return this.measurements.filter((measurement) => measurement.result === undefined);
  }

  /** The status after a completed measurement. */
  conclude(overhead: Micros): ModelStatus {
    const failure = this.#failure;
    if (failure !== undefined) return this.status("failed", `a trial run failed: ${failure}`);
    const byType = this.#byType();
    const unfit = this.#unfit(byType, overhead);
    const of = (summary: "median" | "mean"): ProfilePoints[] =>
      this.spec.buckets.map((_, bucket) => this.#points(bucket, summary, (type) => !unfit.includes(type)));
    return {
      ...this.decide(of("median"), of("mean"), overhead),
      executorTypes: this.types.filter((type) => !unfit.includes(type)),
      ...(this.types.length > 1 && {
        byType: byType.map((one) => (unfit.includes(one.type) ? { ...one, unfit: true } : one)),
      }),
    };
  }
  /** Profiles by type: where the executors that have the model are unlike, some types may not have been measured. */
  #byType(): NonNullable<ModelStatus["byType"]> {
    const measured = [
      ...new Set(this.measurements.flatMap(({ result }) => (result === undefined ? [] : [result.type]))),
    ];
    const of = (type: string, summary: "median" | "mean"): ProfilePoints[] =>
      this.spec.buckets.map((_, bucket) => this.#points(bucket, summary, (one) => one === type));
    return measured.map((type) => ({ type, profiles: of(type, "median"), means: of(type, "mean") }));
  }
  /** The types that don't serve the model: it is then served by the others alone. */
  #unfit(byType: NonNullable<ModelStatus["byType"]>, overhead: Micros): readonly string[] {
    const gpusOf = (type: string): number =>
      [...this.reports.values()].reduce((sum, report) => sum + (report.type === type ? report.gpus.length : 0), 0);
    const fit = servingTypes(
      byType.map(({ type, profiles }) => offeredType(this.spec, profiles, gpusOf(type), overhead)),
    );
    return byType.filter((_, i) => !fit[i]).map(({ type }) => type);
  }
  decide(profiles: readonly ProfilePoints[], means: readonly ProfilePoints[], overhead: Micros): ModelStatus {
    const refusal = refusalOf(this.spec, profiles, overhead);
    return { ...this.status(refusal === "" ? "ready" : "refused", refusal), profiles, means };
  }
  status(state: ModelStatus["state"], reason: string): ModelStatus {
    const { name, number, version } = this.spec;
    return { name, number, version, state, reason, profiles: [], means: [], executorTypes: this.types };
  }

  /**
   * Points of l(b). If there are several executor types that count, it is the pointwise slowest, since any of them may
   * get the batch (docs/algorithms.md, 0).
   */
  #points(bucket: number, summary: "median" | "mean", counts: (type: string) => boolean): ProfilePoints {
    const byType = new Map<string, MeasuredSize[]>();
    for (const { bucket: measured, result } of this.measurements) {
      if (measured === bucket && result !== undefined && counts(result.type))
        byType.set(result.type, [...(byType.get(result.type) ?? []), ...result.samples]);
    }
    const tables = [...byType.values()].map((sizes) =>
      LatencyTable.fromPoints(pointsOf(sizes, summary), { batchSizeMax: this.spec.batchSizeMax }),
    );
    const sizes = new Set([...byType.values()].flat().map((size) => size.batchSize));
    const slowest = LatencyTable.slowest(tables);
    return [...sizes].sort((a, b) => a - b).map((batchSize) => ({ batchSize, latency: slowest.latency(batchSize) }));
  }
}
