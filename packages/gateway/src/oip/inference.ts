/** Inference requests to the cluster, shared by HTTP and gRPC. */
import type { CatalogModel, LocalActors } from "@tutti/actors";
import type { CancelSignal, InferOptions, TensorAnswer } from "@tutti/client";
import { type PipelineReport, type Tensor, NAME_RULE, TuttiError, isName } from "@tutti/protocol";
import type { Tracer } from "@tutti/ports/telemetry";
import type { Micros } from "@tutti/units";
import type { AppClients } from "./app-clients.ts";
import { joinRows, splitRows } from "./batch-rows.ts";
import { BegunRequest } from "./begun-request.ts";
import { type RequestTarget, targetOf } from "./request-target.ts";
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
  /** Set where it began before its tensors were made. */
  readonly begun?: BegunRequest;
  /** Aborts when the client disconnects. */
  readonly signal: CancelSignal;
}
export interface InferOutcome {
  readonly model: string;
  readonly version: string;
  readonly outputs: readonly Tensor[];
  /** Outputs that clients get as BYTES. */
  readonly texts?: ReadonlySet<string> | undefined;
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
  /** Time in which its file became tensors; undefined: it came as tensors. */
  readonly decodeS?: number;
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
    const begun = call.begun ?? this.begin(call, performance.now());
    const { spec, target } = begun;
    try {
      const rows = spec === undefined ? [call.inputs] : splitRows(spec, call.inputs);
      begun.asksFor(rows.length);
      const terms = begun.traced(call.terms);
      const results = await this.#ask(target, rows, terms === call.terms ? call : { ...call, terms });
      begun.answered(results);
      const answers = results.map((result) => outputsOf(target, result, call.wanted));
      const version = results[0]?.version ?? target.version;
      return { model: target.publicName, version, outputs: joinRows(answers), texts: target.texts };
    } catch (error) {
      begun.failed(error);
      throw error;
    }
  }

  /**
   * Begins a request whose tensors are yet to be made. It goes on as `infer`, or ends as `refuse`.
   *
   * @param receivedAt - when its first byte came, by `performance.now()`: its time counts from there
   * @throws {TuttiError} NOT_FOUND, INVALID_INPUT
   */
  begin({ model, version, terms }: Pick<InferCall, "model" | "version" | "terms">, receivedAt: number): BegunRequest {
    const spec = modelNamed(this.#ports.modelOf, model, version)?.spec;
    const target = spec === undefined ? this.#pipelineTarget(model) : targetOf(spec);
    const onEnd = this.#onEnd;
    return new BegunRequest({ spec, target, terms, receivedAt, tracer: this.#ports.tracer, onEnd });
  }

  /**
   * Ends a request that can't be asked for. The ingress of this process counts and lists it like those that it refuses
   * itself.
   */
  refuse(begun: BegunRequest, { id, version }: Pick<InferCall, "id" | "version">, error: TuttiError): void {
    const { target, arrivedAt } = begun;
    const { app, slo = target.slo, priority, size, traceparent } = begun.traced(begun.terms);
    this.#ports.local?.ingress?.ask(
      {
        ...{ target: target.publicName, app, tensors: [], version, id, slo, priority, size, traceparent, arrivedAt },
        ...{ wanted: undefined, refusal: error },
      },
      () => undefined,
    );
    begun.failed(error);
  }

  readonly #onEnd = (begun: BegunRequest, outcome: string, rows: readonly TensorAnswer[]): void => {
    const { target, terms, receivedAt, decodeMs } = begun;
    if (!this.#isKnown(target, outcome)) return;
    this.#ports.note({
      ...{ model: target.name, version: target.version, app: terms.app },
      sloS: (terms.slo ?? target.slo ?? Infinity) / 1e6,
      ...this.#answeredBy(target, rows),
      ...{ outcome, durationS: (performance.now() - receivedAt) / 1_000, rows },
      ...(decodeMs !== undefined && { decodeS: decodeMs / 1_000 }),
    });
  };

  /**
   * Whether metrics may name the target. Only an ingress knows the pipelines, and names come from outside, so a
   * pipeline counts as known once it has answered.
   */
  #isKnown({ name, isPipeline }: RequestTarget, outcome: string): boolean {
    if (!isPipeline || this.#pipelines.has(name)) return true;
    if (outcome !== "ok" || this.#pipelines.size >= GATEWAY_PIPELINES_MAX) return false;
    this.#pipelines.add(name);
    return true;
  }

  /** A pipeline: it waits for the longest cold start of its stages' models. */
  #pipelineTarget(name: string): RequestTarget {
    const { stages = [], outputs = [] } = this.#ports.pipelines?.().get(name) ?? {};
    const texts = outputs.filter(({ datatype }) => datatype === "BYTES").map((output) => output.name);
    const coldStarts = stages.map(({ model }) => this.#ports.modelOf(model)?.spec.scaleToZero?.coldStart ?? 0);
    const coldStart = Math.max(0, ...coldStarts) as Micros;
    return {
      ...{ name, publicName: name, version: "1", slo: undefined, outputs: undefined, isPipeline: true },
      ...(coldStart > 0 && { coldStart }),
      ...(texts.length > 0 && { texts: new Set(texts) }),
    };
  }

  /** Model and version that the figures belong to: where versions share requests, only the answer names it. */
  #answeredBy({ publicName }: RequestTarget, results: readonly TensorAnswer[]): Partial<RequestNoted> {
    const version = results[0]?.version;
    const answered = version === undefined ? undefined : this.#ports.modelOf(publicName, version);
    return answered === undefined ? {} : { model: answered.spec.name, version: answered.spec.version };
  }

  /** Asks for all rows. The first row that fails cancels the others, whose answers would be of no use. */
  async #ask(target: RequestTarget, rows: readonly (readonly Tensor[])[], call: InferCall): Promise<TensorAnswer[]> {
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

  #askRow(target: RequestTarget, inputs: readonly Tensor[], call: InferCall): Promise<TensorAnswer> {
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
  { publicName, slo: own }: RequestTarget,
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
  { slo: own, coldStart }: RequestTarget,
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
  target: RequestTarget,
  { outputs }: TensorAnswer,
  wanted: readonly string[] | undefined,
): readonly Tensor[] {
  const names = wanted ?? target.outputs;
  if (names === undefined || (names.length === 1 && outputs.length === 1 && outputs[0]!.name === names[0]))
    return outputs;
  return names.flatMap((name) => outputs.find((output) => output.name === name) ?? []);
}

const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
