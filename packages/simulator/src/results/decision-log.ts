/**
 * The decision log: each decision with its request and its time, as JSON lines, byte for byte equal for equal
 * scenarios. The first line is the header; the package's README lists the fields. Times are whole µs from the
 * scenario's beginning.
 *
 *   LOG-1. Lines are in the order of virtual time; at one moment completions come before arrivals.
 *   LOG-2. A request has one `arrive` line and ends once: in one `refuse` line or in one completed `finish` of its
 *          batch.
 */
import { type Instant, assert } from "@tutti/units";
import { profilesOn, typedModels } from "../parts/accelerator-types.ts";
import { typesInUse } from "../parts/halves.ts";
import { type RunListener, simulate } from "../run.ts";
import type { Scenario } from "../scenario/scenario.ts";
import type { SimBatch, SimRefusal, SimRequest } from "../cluster/simulated-cluster.ts";

/** Increased with every change that an older reader can't handle. */
export const DECISION_LOG_VERSION = 1;

export interface DecisionHeader {
  readonly version: number;
  readonly seed: number;
  readonly policy: string;
  readonly gather: "target" | "head";
  readonly gpus: number;
  /** Models in the order of their numbers; `soloUs` is l(1), how long a batch of one runs. */
  readonly models: readonly {
    readonly name: string;
    readonly sloUs: number;
    readonly soloUs: number;
    /** Types of accelerators that it isn't given, and l(1) there. Left out: there are none. */
    readonly unfit?: readonly { readonly type: string; readonly soloUs: number }[];
  }[];
}

export type Decision =
  | {
      readonly at: number;
      readonly event: "arrive";
      readonly request: number;
      readonly model: number;
      readonly deadline: number;
      /** Deadline of the last step of its costs, where they have more than one. */
      readonly lastDeadline?: number;
    }
  | { readonly at: number; readonly event: "refuse"; readonly request: number; readonly cause: SimRefusal }
  | {
      readonly at: number;
      readonly event: "dispatch";
      readonly batch: number;
      readonly model: number;
      readonly gpu: number;
      readonly requests: readonly number[];
      /** Absent where the scheduler plans no starts. */
      readonly plan?: {
        readonly start: number;
        /** Last start that meets the deadline of the batch's first request. */
        readonly latest: number;
        /** Start until which one more could have joined; null where the batch is full. */
        readonly frontrun: number | null;
        /** When the accelerator ends its earlier batches; null if there are none. */
        readonly free: number | null;
      };
    }
  | {
      readonly at: number;
      readonly event: "finish";
      readonly batch: number;
      readonly gpu: number;
      readonly start: number;
      /** False: the batch was aborted. */
      readonly completed: boolean;
    };

export function decisionHeader(scenario: Scenario): DecisionHeader {
  const { seed, policy, gather, gpus, models } = scenario;
  const types = typesInUse(scenario) ?? [];
  const typed = types.length === 0 ? undefined : typedModels(scenario, types);
  const told = models.map((model, i) => {
    const { name, slo, profile } = model;
    const unfit = typed?.unfit[i]!.map(({ type }) => {
      return { type: types[type]!.name, soloUs: profilesOn(types, model, scenario)[type]!.latency(1) };
    });
    const isUnfit = unfit !== undefined && unfit.length > 0;
    return { name, sloUs: slo, soloUs: profile.latency(1), ...(isUnfit && { unfit }) };
  });
  return { version: DECISION_LOG_VERSION, seed, policy, gather, gpus, models: told };
}

/**
 * A listener that puts events in order (LOG-1). Every request ends, so every arrival is written before the run ends.
 */
export class DecisionRecorder implements RunListener {
  readonly #write: (decision: Decision) => void;
  /** The request that is handed to the cluster, which first reports the events that were due before it. */
  #arriving: SimRequest | undefined;

  constructor(write: (decision: Decision) => void) {
    this.#write = write;
  }

  arrived(request: SimRequest): void {
    this.#flush();
    this.#arriving = request;
  }
  dispatched(batch: SimBatch, at: Instant): void {
    this.#flushUntil(at);
    const { id, model, gpu, plan } = batch;
    const requests = batch.requests.map((request) => request.id);
    const line = { at, event: "dispatch", batch: id, model, gpu, requests } as const;
    if (plan === undefined) return this.#write(line);
    const { startAt, latest, frontrun, freeAt } = plan;
    this.#write({ ...line, plan: { start: startAt, latest, frontrun: finite(frontrun), free: finite(freeAt) } });
  }
  refused(request: SimRequest, cause: SimRefusal, at: Instant): void {
    this.#flushUntil(at);
    this.#write({ at, event: "refuse", request: request.id, cause });
  }
  finished({ id, gpu }: SimBatch, begin: Instant, end: Instant, completed: boolean): void {
    // An aborted batch may be a consequence of the new request; a completed one isn't.
    this.#flushUntil(completed ? end - 1 : end);
    this.#write({ at: end, event: "finish", batch: id, gpu, start: begin, completed });
  }

  #flushUntil(at: number): void {
    if (this.#arriving !== undefined && this.#arriving.arrivedAt <= at) this.#flush();
  }
  #flush(): void {
    if (this.#arriving === undefined) return;
    const { id, model, arrivedAt, deadline, steps = [] } = this.#arriving;
    this.#arriving = undefined;
    const line = { at: arrivedAt, event: "arrive", request: id, model, deadline } as const;
    this.#write(steps.length > 1 ? { ...line, lastDeadline: steps.at(-1)!.deadline } : line);
  }
}

/** A listener that writes the log of `scenario` line by line, the header at once. Lines have no line end. */
export function decisionLog(scenario: Scenario, writeLine: (line: string) => void): RunListener {
  writeLine(JSON.stringify(decisionHeader(scenario)));
  return new DecisionRecorder((decision) => writeLine(JSON.stringify(decision)));
}

/** Runs a scenario for its log alone; all of it is in memory, so for short ones. */
export function decisionLines(scenario: Scenario): string[] {
  const lines: string[] = [];
  simulate(scenario, { listener: decisionLog(scenario, (line) => lines.push(line)) });
  return lines;
}

/**
 * Reads a log back.
 *
 * @throws Error for a log of another version; SyntaxError for a line that is no JSON
 */
export function readDecisions(lines: readonly string[]): { header: DecisionHeader; decisions: Decision[] } {
  assert(lines.length > 0, "a decision log has a header");
  const header = JSON.parse(lines[0]!) as DecisionHeader;
  if (header.version !== DECISION_LOG_VERSION) {
    throw new Error(`a decision log of version ${header.version}; this reads version ${DECISION_LOG_VERSION}`);
  }
  return { header, decisions: lines.slice(1).map((line) => JSON.parse(line) as Decision) };
}

const finite = (moment: number): number | null => (Number.isFinite(moment) ? moment : null);
