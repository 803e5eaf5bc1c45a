/** Inference requests to the cluster, shared by HTTP and gRPC. */
import type { CatalogModel, LocalActors } from "@tutti/actors";
import type { CancelSignal, InferOptions, TensorAnswer } from "@tutti/client";
import {
  type ModelSpec,
  type PipelineReport,
  type Tensor,
  NAME_RULE,
  TuttiError,
  isName,
  publicNameOf,
} from "@tutti/protocol";
import { type Tracer, formatTraceparent, parseTraceparent } from "@tutti/ports/telemetry";
import type { Instant, Micros } from "@tutti/units";
import type { AppClients } from "./app-clients.ts";
import { joinRows, splitRows } from "./batch-rows.ts";
import type { RequestTerms } from "./request-terms.ts";

export interface InferCall {
  readonly model: string;
  readonly version: string | undefined;
  /** The client's own id: a retry with the same one goes to the same version. */
  readonly id?: string | undefined;
  readonly inputs: readonly Tensor[];
  /** Names; undefined: all. */
  readonly wanted: readonly string[] | undefined;
  readonly terms: RequestTerms;
  /** Aborts when the client disconnects. */
  readonly signal: CancelSignal;
}
export interface InferOutcome {
  readonly model: string;
  readonly version: string;
  readonly outputs: readonly Tensor[];
}

/** Record of a finished request, for metrics. Times in seconds. */
export interface RequestNoted {
  readonly model: string;
  readonly version: string;
  readonly app: string;
  readonly sloS: number;
  /** "ok", or the code of the refusal. */
  readonly outcome: string;
  readonly durationS: number;
  readonly rows: readonly TensorAnswer[];
}

/** Rows in flight of one gateway; beyond, OVERLOADED. */
export const GATEWAY_ROWS_MAX = 32_768;

/** Largest number of pipelines that metrics name. */
export const GATEWAY_PIPELINES_MAX = 256;

/** Finds a model; without a version its default, which gets the requests outside all shares. */
export type ModelOf = (name: string, version?: string) => CatalogModel | undefined;

export interface InferencePorts {
  readonly modelOf: ModelOf;
  /** Pipelines by name, as ingresses report them. Default: none are known. */
  readonly pipelines?: () => ReadonlyMap<string, PipelineReport>;
  readonly clients: AppClients;
  readonly note: (noted: RequestNoted) => void;
  readonly tracer: Tracer;
  /** Registry where an ingress of this process may register to be called without messages. */
  readonly local?: LocalActors | undefined;
  readonly rowsMax?: number;
}

export class Inference {
  readonly #ports: InferencePorts;
  /** Pipelines that have answered. */
  readonly #pipelines = new Set<string>();
  #inFlight = 0;

  constructor(ports: InferencePorts) {
    this.#ports = ports;
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** @throws {TuttiError} as a rejection */
  async infer(call: InferCall): Promise<InferOutcome> {
    const startedAt = performance.now();
    const spec = modelNamed(this.#ports.modelOf, call.model, call.version)?.spec;
    const target = spec === undefined ? this.#pipelineTarget(call.model) : targetOf(spec);
    const rows = spec === undefined ? [call.inputs] : splitRows(spec, call.inputs);
    const noted = {
      model: target.name,
      version: target.version,
      app: call.terms.app,
      sloS: (call.terms.slo ?? target.slo ?? Infinity) / 1e6,
    };
    const note = (outcome: string, results: readonly TensorAnswer[]): void => {
      if (!this.#isKnown(target, outcome)) return;
      const durationS = (performance.now() - startedAt) / 1_000;
      this.#ports.note({ ...noted, ...this.#answeredBy(target, results), outcome, durationS, rows: results });
    };
    const { terms, end } = this.#trace(target, rows.length, call.terms);
    try {
      const results = await this.#ask(target, rows, terms === call.terms ? call : { ...call, terms });
      end(undefined);
      note("ok", results);
      const answers = results.map((result) => outputsOf(target, result, call.wanted));
      const version = results[0]?.version ?? target.version;
      return { model: target.publicName, version, outputs: joinRows(answers) };
    } catch (error) {
      end(error);
      note(error instanceof TuttiError ? error.code : "TUTTI_INTERNAL", []);
      throw error;
    }
  }

  /**
   * Whether metrics may name the target. Only an ingress knows the pipelines, and names come from outside, so a
   * pipeline counts as known once it has answered.
   */
  #isKnown({ name, isPipeline }: Target, outcome: string): boolean {
    if (!isPipeline || this.#pipelines.has(name)) return true;
    if (outcome !== "ok" || this.#pipelines.size >= GATEWAY_PIPELINES_MAX) return false;
    this.#pipelines.add(name);
    return true;
  }

  /** A pipeline: it waits for the longest cold start of its stages' models. */
  #pipelineTarget(name: string): Target {
    const stages = this.#ports.pipelines?.().get(name)?.stages ?? [];
    const coldStarts = stages.map(({ model }) => this.#ports.modelOf(model)?.spec.scaleToZero?.coldStart ?? 0);
    const coldStart = Math.max(0, ...coldStarts) as Micros;
    return {
      ...{ name, publicName: name, version: "1", slo: undefined, outputs: undefined, isPipeline: true },
      ...(coldStart > 0 && { coldStart }),
    };
  }

  /** Model and version that the figures belong to: where versions share requests, only the answer names it. */
  #answeredBy({ publicName }: Target, results: readonly TensorAnswer[]): Partial<RequestNoted> {
    const version = results[0]?.version;
    const answered = version === undefined ? undefined : this.#ports.modelOf(publicName, version);
    return answered === undefined ? {} : { model: answered.spec.name, version: answered.spec.version };
  }

  /**
   * Starts the gateway's span of a request, the parent of its rows' spans. @returns terms with the span's context, and
   * a function that ends it
   */
  #trace({ name: model, slo }: Target, rows: number, terms: RequestTerms) {
    const { tracer } = this.#ports;
    if (!tracer.enabled) return { terms, end: (): void => undefined };
    const parent = parseTraceparent(terms.traceparent);
    const startedAt = now();
    const span = tracer.start(`gateway ${model}`, {
      kind: "server",
      at: startedAt,
      ...(parent !== undefined && { parent }),
      attributes: { "tutti.model": model, "tutti.app": terms.app, "tutti.rows": rows },
    });
    const end = (error: unknown): void => {
      const at = now();
      if (error !== undefined) {
        const { code, message } =
          error instanceof TuttiError ? error : { code: "TUTTI_INTERNAL", message: String(error) };
        span.event("refused", at, { code, reason: message });
        span.keep();
        return span.end(at, message);
      }
      if (at - startedAt > (terms.slo ?? slo ?? Infinity)) span.keep();
      span.end(at);
    };
    return { terms: { ...terms, traceparent: formatTraceparent(span.context) }, end };
  }

  /** Asks for all rows. The first row that fails cancels the others, whose answers would be of no use. */
  async #ask(target: Target, rows: readonly (readonly Tensor[])[], call: InferCall): Promise<TensorAnswer[]> {
    const rowsMax = this.#ports.rowsMax ?? GATEWAY_ROWS_MAX;
    if (this.#inFlight + rows.length > rowsMax)
      throw new TuttiError(
        "TUTTI_OVERLOADED",
        `this gateway waits for ${this.#inFlight} rows already (GATEWAY_ROWS_MAX)`,
        {
          retryAfterMs: 50,
        },
      );
    const [only] = rows;
    if (rows.length === 1 && only !== undefined) {
      this.#inFlight++;
      try {
        return [await this.#askRow(target, only, call)];
      } finally {
        this.#inFlight--;
      }
    }
    const others = new AbortController();
    const onGone = (): void => others.abort(call.signal.reason);
    call.signal.addEventListener("abort", onGone, { once: true });
    // The same id for all rows, so that one version answers them.
    const row = { ...call, id: call.id ?? crypto.randomUUID(), signal: others.signal };
    this.#inFlight += rows.length;
    // The call may throw, such as where there is no client for one more application: that row has ended too.
    const asked = rows.map(async (inputs) => {
      try {
        return await this.#askRow(target, inputs, row);
      } finally {
        this.#inFlight--;
      }
    });
    try {
      return await Promise.all(asked);
    } catch (error) {
      others.abort();
      await Promise.allSettled(asked);
      throw error;
    } finally {
      call.signal.removeEventListener("abort", onGone);
    }
  }

  #askRow(target: Target, inputs: readonly Tensor[], call: InferCall): Promise<TensorAnswer> {
    const nearby = target.isPipeline ? undefined : this.#ports.local?.ingress;
    if (nearby !== undefined) {
      const answer = askNearby(nearby, target, inputs, call);
      if (answer !== undefined) return answer;
    }
    const client = this.#ports.clients.of(call.terms.app);
    return client.inferTensors(target.publicName, checked(inputs), optionsOf(target, call, call.signal));
  }
}

/**
 * Asks the ingress of this process. The ingress' own timer answers at the deadline, so no time-out is needed here.
 *
 * @returns undefined: it must be asked by message
 */
function askNearby(
  ingress: NonNullable<LocalActors["ingress"]>,
  { publicName, slo: own }: Target,
  tensors: readonly Tensor[],
  { terms, wanted, version, id, signal }: InferCall,
): Promise<TensorAnswer> | undefined {
  if (signal.aborted)
    return Promise.reject(new TuttiError("TUTTI_CANCELLED", "cancelled by the caller", { cause: signal.reason }));
  const { app, slo = own, costs, priority, size, traceparent } = terms;
  const { promise, resolve, reject } = Promise.withResolvers<TensorAnswer>();
  const cancel = (): void => call?.cancel();
  let isDone = false;
  const call = ingress.ask(
    {
      target: publicName,
      app,
      tensors,
      id,
      slo,
      costs,
      priority,
      size,
      wanted,
      traceparent,
      version: version === "" ? undefined : version,
    },
    (outcome) => {
      isDone = true;
      signal.removeEventListener("abort", cancel);
      if (outcome instanceof TuttiError) reject(outcome);
      else resolve({ ...outcome, model: publicName });
    },
  );
  if (call === undefined) return undefined;
  if (!isDone) signal.addEventListener("abort", cancel, { once: true });
  return promise;
}

/** Target of a request: a model, or else a pipeline, of which the gateway knows only the name. */
interface Target {
  /** Name in the figures. */
  readonly name: string;
  readonly publicName: string;
  readonly version: string;
  /** The model's SLO; only the ingress knows a pipeline's. */
  readonly slo: Micros | undefined;
  /** Time that the ingress adds where the model is parked; undefined: it never is. */
  readonly coldStart?: Micros;
  /** Names in the order of answers; undefined: all, in any order. */
  readonly outputs: readonly string[] | undefined;
  readonly isPipeline: boolean;
}

/** Targets of the models that are loaded: a request asks for one that others asked for before. */
const targets = new WeakMap<ModelSpec, Target>();
function targetOf(spec: ModelSpec): Target {
  let target = targets.get(spec);
  if (target === undefined) targets.set(spec, (target = modelTarget(spec)));
  return target;
}

const modelTarget = ({ name, version, slo, scaleToZero, outputs }: ModelSpec): Target => ({
  ...{ name, publicName: publicNameOf(name), version, slo, isPipeline: false },
  ...(scaleToZero !== undefined && { coldStart: scaleToZero.coldStart }),
  outputs: outputs.map((output) => output.name),
});

/**
 * Finds a model by name and version.
 *
 * @returns undefined: there is no such model, but perhaps a pipeline
 * @throws {TuttiError} NOT_FOUND for a version that isn't served, INVALID_INPUT
 */
export function modelNamed(modelOf: ModelOf, name: string, version: string | undefined): CatalogModel | undefined {
  if (!isName(name)) throw invalid(`"${name.slice(0, 80)}" is no name of a model: ${NAME_RULE}`);
  const model = modelOf(name);
  const asked = version === undefined || version === "" ? model : modelOf(name, version);
  if (asked !== undefined || version === undefined || version === "") return asked;
  if (model === undefined) return undefined;
  const { version: served } = model.spec;
  throw new TuttiError("TUTTI_NOT_FOUND", `"${name}" is served in version ${served}, not ${version.slice(0, 80)}`);
}

function optionsOf(
  { slo: own, coldStart }: Target,
  { wanted, terms, version, id }: InferCall,
  signal: CancelSignal,
): InferOptions {
  const { slo = own, costs, priority, size, traceparent } = terms;
  return {
    // Sent even where it is the model's own: the client then detects a lost answer right after it.
    ...(costs !== undefined
      ? { costs: costs.map(({ after, cost }) => ({ after: `${after}us`, cost })) }
      : slo !== undefined && { slo: `${slo}us` }),
    signal,
    ...(coldStart !== undefined && { coldStart: `${coldStart}us` }),
    ...(id !== undefined && { id: headerSafe(id) }),
    ...(wanted !== undefined && { outputs: wanted }),
    ...(version !== undefined && version !== "" && { version }),
    ...(priority !== undefined && { priority }),
    ...(size !== undefined && { size }),
    ...(traceparent !== undefined && { traceparent }),
  };
}

/** Encodes the id for the value of a header. */
const headerSafe = (id: string): string => (/^[\x21-\x7e]+$/.test(id) ? id : encodeURIComponent(id.toWellFormed()));

/** @throws {TuttiError} INVALID_INPUT for a name that occurs twice */
function checked(inputs: readonly Tensor[]): readonly Tensor[] {
  for (let i = 1; i < inputs.length; i++)
    for (let k = 0; k < i; k++)
      if (inputs[i]!.name === inputs[k]!.name) throw invalid(`input "${inputs[i]!.name}" is there twice`);
  return inputs;
}

/** Orders outputs as they were asked for, or as the model declares them. */
function outputsOf(
  target: Target,
  { outputs }: TensorAnswer,
  wanted: readonly string[] | undefined,
): readonly Tensor[] {
  const names = wanted ?? target.outputs;
  if (names === undefined || (names.length === 1 && outputs.length === 1 && outputs[0]!.name === names[0]))
    return outputs;
  return names.flatMap((name) => outputs.find((output) => output.name === name) ?? []);
}

const now = (): Instant => Math.round((performance.timeOrigin + performance.now()) * 1000) as Instant;
const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
