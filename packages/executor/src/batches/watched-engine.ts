/**
 * An engine with a detected end: a fault that it reports, or a missed deadline of a run or load. A run can't be
 * cancelled, so in both cases the executor must end and be restarted.
 *
 *   WATCH-1. A deadline counts from when the engine can have begun: it takes runs and loads one at a time, in the order
 *            given.
 *   WATCH-2. A stall of this process (SIGSTOP, a machine that sleeps) is not the engine's fault: after it the whole
 *            deadline begins again.
 *   WATCH-3. `onDead` is called once; after that no run or load reports an outcome.
 */
import type { Alarm, Clock } from "@tutti/ports/clock";
import type { Engine, EngineBatch, EngineModel, LoadOutcome, RunOutcome } from "@tutti/ports/engine";
import { type ModelSpec, type ProfilePoints, typicalLengths, unitsOfLengths } from "@tutti/protocol";
import {
  type GpuId,
  type Instant,
  type Micros,
  NEVER,
  after,
  between,
  formatDuration,
  micros,
  millis,
  seconds,
} from "@tutti/units";
import type { CatalogModel } from "@tutti/actors/runtime";
import { RunMemory } from "../models/run-memory.ts";

/** The end of an engine, and what it was doing then. */
export interface EngineDeath {
  readonly gpu: GpuId;
  readonly model: string;
  readonly doing: "run" | "load";
  /** Rows of the run; a load runs one at a time. */
  readonly rows: number;
  readonly startedAt: Instant;
  readonly how: "hung" | "crashed";
  readonly reason: string;
}

export interface WatchOptions {
  readonly gpu: GpuId;
  readonly clock: Clock;
  readonly runLimit: (batch: Pick<EngineBatch, "model" | "bucket" | "batchSize" | "units">) => Micros;
  readonly loadLimit: (spec: ModelSpec) => Micros;
  readonly onDead: (death: EngineDeath) => void;
}

/** An alarm that is later than this shows that the process itself did not run. */
const STALL = millis(250);
/** Renewals of one run's deadline after stalls that were shorter than the deadline. */
const RENEWALS = 2;

interface Job {
  readonly model: string;
  readonly doing: "run" | "load";
  readonly rows: number;
  readonly limit: Micros;
  /** How often its deadline began again after a stall. */
  renewals: number;
}

export class WatchedEngine implements Engine {
  readonly type: string;
  readonly #engine: Engine;
  readonly #options: WatchOptions;
  readonly #alarm: Alarm;
  readonly #jobs: Job[] = [];
  #startedAt: Instant;
  #armedFor: Instant = NEVER;
  #dead = false;
  readonly #memory: RunMemory | undefined;

  constructor(engine: Engine, options: WatchOptions) {
    this.type = engine.type;
    this.#engine = engine;
    this.#options = options;
    this.#startedAt = options.clock.now();
    if (engine.residentBytes !== undefined) this.#memory = new RunMemory(() => engine.residentBytes!());
    this.#alarm = options.clock.alarm(() => this.#onDue());
  }

  get cold(): boolean {
    return this.#engine.cold === true;
  }

  runSizes(model: string): readonly number[] | undefined {
    return this.#engine.runSizes?.(model);
  }

  latencyOf(model: string, bucket: number, batchSize: number): Micros | undefined {
    return this.#engine.latencyOf?.(model, bucket, batchSize);
  }

  /** Bytes that a model's runs take besides its weights; undefined: not measured. */
  runBytesOf(model: string): number | undefined {
    return this.#memory?.of(model);
  }

  load(model: EngineModel, done: (outcome: LoadOutcome) => void): void {
    const job = this.#begin({
      model: model.spec.name,
      doing: "load",
      rows: 1,
      limit: this.#options.loadLimit(model.spec),
      renewals: 0,
    });
    this.#engine.load(model, (outcome) =>
      this.#end(job, outcome, () => {
        if (outcome.kind === "loaded") this.#memory?.loaded(model.spec);
        done(outcome);
      }),
    );
  }
  run(batch: EngineBatch, done: (outcome: RunOutcome) => void): void {
    const { model, batchSize } = batch;
    const limit = this.#options.runLimit(batch);
    const job = this.#begin({ model, doing: "run", rows: batchSize, limit, renewals: 0 });
    const before = this.#memory?.before(batch, this.#jobs.length === 1);
    this.#engine.run(batch, (outcome) =>
      this.#end(job, outcome, () => {
        if (before !== undefined && outcome.kind === "ran")
          this.#memory?.after({ model, batchSize }, before, this.#jobs.length === 0);
        done(outcome);
      }),
    );
  }
  unload(name: string, done: () => void): void {
    this.#memory?.unloaded(name);
    this.#engine.unload(name, done);
  }
  stop(done: () => void): void {
    this.#engine.stop(done);
  }

  #begin(job: Job): Job {
    this.#jobs.push(job);
    if (this.#jobs.length === 1) this.#watchHead();
    return job;
  }
  #end(job: Job, outcome: LoadOutcome | RunOutcome, tell: () => void): void {
    if (this.#dead) return; // WATCH-3
    if (outcome.kind === "failed" && outcome.fault === true) return this.#die(job, "crashed", outcome.reason);
    const index = this.#jobs.indexOf(job);
    this.#jobs.splice(index, 1);
    if (index === 0) this.#watchHead(); // WATCH-1
    tell();
  }

  #watchHead(): void {
    this.#startedAt = this.#options.clock.now();
    const [job] = this.#jobs;
    if (job !== undefined) this.#arm(after(this.#startedAt, job.limit));
  }
  /** Sets the alarm only to an earlier time. An alarm that comes too early costs less than setting one for each run. */
  #arm(dueAt: Instant): void {
    if (dueAt >= this.#armedFor) return;
    this.#armedFor = dueAt;
    this.#alarm.set(dueAt);
  }

  #onDue(): void {
    const now = this.#options.clock.now();
    const late = between(this.#armedFor, now);
    this.#armedFor = NEVER;
    const [job] = this.#jobs;
    if (job === undefined || this.#dead) return;
    // WATCH-2. Renewals are bounded: runs that hang fill the processors, so a process that waits for one is late again
    //          and
    //     again.
    if (late > STALL && (late >= job.limit || job.renewals++ < RENEWALS)) this.#startedAt = now;
    const dueAt = after(this.#startedAt, job.limit);
    if (dueAt > now) return this.#arm(dueAt);
    const what = job.doing === "run" ? `a run of ${job.model}` : `loading ${job.model}`;
    this.#die(job, "hung", `${what} has not ended within ${formatDuration(job.limit)}`);
  }

  #die({ model, doing, rows }: Job, how: EngineDeath["how"], reason: string): void {
    this.#dead = true;
    const { gpu, onDead } = this.#options;
    onDead({ gpu, model, doing, rows, startedAt: this.#startedAt, how, reason });
  }
}

/**
 * Factor on the planned latency. A run takes up to three times as long beside busy neighbours, and many times as long
 * on a machine that is short of processors.
 */
const LIMIT_TIMES = 20;
export const RUN_LIMIT_MIN = seconds(2);
/** Longest deadline of a run whose latency is unknown, unless twice its SLO is longer. */
export const RUN_LIMIT_UNKNOWN = seconds(30);
const UNKNOWN_SLOS = 2;
/** Shortest deadline of a run where the first one of each shape makes a session and compiles. */
const RUN_LIMIT_COMPILED = seconds(10);
/** A row that takes so long is measured, and the model is refused with what it took, for the price of one run. */
const FIRST_RUN_LEAST = seconds(10);
/** Factor on one row's SLO: beside busy neighbours a run takes three times as long. */
const FIRST_RUN_TIMES = 4;
/**
 * Shortest deadline of a load. Sessions are created in milliseconds, but providers other than the CPU compile each
 * shape, and compare it with the CPU's.
 */
const LOAD_LIMIT_MIN = seconds(10);
const LOAD_LIMIT_MIN_COMPILED = seconds(30);
/** Speed of reading a model's file: 10 MB a second is a slow disk. */
const LOAD_BYTES_PER_MICRO = 10;

/** Whether the first run of a shape may compile shaders for seconds. */
const compiles = (engineType: string): boolean => !/^(onnx-cpu|emulated)/.test(engineType);
const fileTime = ({ file }: Pick<ModelSpec, "file">): number => Math.ceil((file?.bytes ?? 0) / LOAD_BYTES_PER_MICRO);

/**
 * Deadline of a load. It includes one run of a row, since the engine tries rows, and can't end a run that takes long:
 * a model that may run for so long must also be loaded.
 */
export function loadLimitOf(spec: Pick<ModelSpec, "file" | "slo" | "runDeadline">, engineType: string): Micros {
  const least = compiles(engineType) ? LOAD_LIMIT_MIN_COMPILED : LOAD_LIMIT_MIN;
  const run = spec.runDeadline ?? firstRunLimitOf(spec, { batchSize: 1, engineType });
  return micros(least + fileTime(spec) + run);
}

/**
 * Deadline of a run on a model without measurements. A model whose rows take longer than its SLO can't be served, so
 * there is no reason to hold the accelerator for it much longer than that; the first run reads the whole file.
 * Measuring ends with the first size beyond the SLO, which takes twice as long as the one before.
 */
export function firstRunLimitOf(
  spec: Pick<ModelSpec, "file" | "slo">,
  { batchSize, engineType }: { readonly batchSize: number; readonly engineType: string },
): Micros {
  const longest = micros(Math.max(RUN_LIMIT_UNKNOWN, UNKNOWN_SLOS * spec.slo));
  if (compiles(engineType)) return longest;
  return micros(Math.min(longest, FIRST_RUN_LEAST + fileTime(spec) + FIRST_RUN_TIMES * batchSize * spec.slo));
}

/**
 * Why a model that nobody has measured must not be tried again: a row by itself outlasted the deadline of a first run.
 * Every further try would hold and end an executor as well.
 *
 * @returns undefined: the death says nothing of that
 */
export function tooSlowReason(
  { how, rows, doing, reason }: EngineDeath,
  { spec: { name, slo, runDeadline }, status }: Pick<CatalogModel, "spec" | "status">,
): string | undefined {
  if (how !== "hung" || rows > 1 || (status?.profiles.length ?? 0) > 0) return undefined;
  const [limit, remedy] =
    runDeadline === undefined
      ? [
          `SLO of ${formatDuration(slo)}`,
          "a larger SLO, or with `run_deadline` in config.yaml if its runs may take so long",
        ]
      : ["`run_deadline`", "a longer one"];
  // A load tries rows of random inputs, whatever samples there are.
  const samples = doing === "run" ? ", or with --sample if only random inputs do" : "";
  return `one row takes too long for its ${limit} (${reason}): load it with ${remedy}${samples}; "tutti models --release ${name}" tries it again as it is`;
}

export interface RunSize {
  readonly batchSize: number;
  /** Factor on the measured latencies, for a model whose inputs vary. */
  readonly times?: number;
}

/**
 * Deadline of a run on a measured model.
 *
 * @param points - the planned latencies in this bucket, by rising batch size; empty before measurements
 * @returns undefined if there are no measurements
 */
export function runLimitOf(points: ProfilePoints, { batchSize, times = 1 }: RunSize): Micros | undefined {
  const [alone] = points;
  if (alone === undefined) return undefined;
  const whole = points.find((point) => point.batchSize >= batchSize) ?? points.at(-1)!;
  // A batch that fails is run again in parts, at worst row by row.
  const slowest = times * Math.max(whole.latency, batchSize * alone.latency);
  return micros(Math.max(RUN_LIMIT_MIN, Math.ceil(LIMIT_TIMES * slowest)));
}

/** @returns how long a run of the batch may take before its engine counts as hung; `model`: undefined if unknown */
export function runLimitFor(
  model: CatalogModel | undefined,
  batch: Pick<EngineBatch, "bucket" | "batchSize" | "units">,
  engineType: string,
): Micros {
  const { bucket, batchSize, units = [] } = batch;
  if (model === undefined) return RUN_LIMIT_UNKNOWN;
  if (model.spec.runDeadline !== undefined) return model.spec.runDeadline;
  // Latencies are measured at the typical length: a longer batch may take proportionally longer.
  const typical = unitsOfLengths(typicalLengths(model.spec));
  const times = typical > 0 ? Math.max(1, Math.max(0, ...units) / typical) : 1;
  // Plans don't count the types that can't serve the model, and this may be one.
  const { byType, profiles = [] } = model.status ?? {};
  const own = byType === undefined ? profiles : byType.find(({ type }) => type === engineType)?.profiles;
  const measured = runLimitOf(own?.[bucket] ?? [], { batchSize, times });
  if (measured === undefined) return firstRunLimitOf(model.spec, { batchSize, engineType });
  // Its shape may be new here, whatever others have measured.
  return compiles(engineType) ? micros(Math.max(measured, RUN_LIMIT_COMPILED + fileTime(model.spec))) : measured;
}
