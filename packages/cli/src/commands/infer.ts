import { type InferResult, TuttiClient, type TensorValue, tensorValue } from "@tutti/client";
import { ModelRegistry, askedSpec } from "@tutti/client/registries";
import { initialState } from "@tutti/onnx-tools";
import { type ErrorCode, type ModelSpec, NAME_RULE, SIZE_HINT_MAX, TuttiError, isName } from "@tutti/protocol";
import { CommandError, print, usageError } from "@tutti/admin";
import { type ClusterOptions, busInNameOf, withCluster } from "@tutti/admin/cluster";
import { whole } from "@tutti/sim-report/scenarios";
import { checkAskedName } from "../present/asked-name.ts";
import { type Inputs, type ReadInput, randomInputs, readInput } from "../present/input-file.ts";
import { type Meaning, meaningOf, outputsAsJson, renderOutputs } from "../present/output-text.ts";
import { sloOption } from "../present/slo-option.ts";
import { linesMeaning, readPipelineInput } from "../present/pipeline-file.ts";

export interface InferCommandOptions extends ClusterOptions {
  readonly input?: string;
  readonly app: string;
  readonly slo?: string;
  readonly size?: string;
  readonly form: string;
  readonly outputs?: string;
  readonly seed: string;
  readonly json?: boolean;
}

const FORMS = ["binary", "json", "msgpack"] as const;

/** `tutti infer <model>`: sends one request, or one for each frame of a sound. The model may be a pipeline. */
export async function infer(model: string, options: InferCommandOptions): Promise<void> {
  const form = FORMS.find((candidate) => candidate === options.form);
  if (form === undefined) throw usageError(`--form ${options.form}: take one of ${FORMS.join(", ")}`);
  if (!isName(options.app)) throw usageError(`--app ${options.app}: ${NAME_RULE}`);
  const size = options.size === undefined ? undefined : Number(options.size);
  if (size !== undefined && !(size > 0 && size <= SIZE_HINT_MAX))
    throw usageError(`--size ${options.size}: a number above zero and up to ${SIZE_HINT_MAX}`);
  if (options.slo !== undefined) sloOption(options.slo);
  const seed = whole("--seed", options.seed, { min: 0, max: 0xffff_ffff });
  // The operator's credentials: an application's may not list models.
  const named = { name: "tutti-infer", isForApps: true };
  await withCluster({ ...options, ...named }, async (nats, { cluster }) => {
    const client = new TuttiClient(busInNameOf(options.app, nats.bulk), { app: options.app });
    try {
      const spec = await askedSpec(new ModelRegistry(nats.store), model);
      const ask = (inputs: Inputs): Promise<InferResult> =>
        client.infer(model, inputs, {
          form,
          ...(options.slo !== undefined && { slo: options.slo }),
          ...(size !== undefined && { size }),
          ...(spec?.scaleToZero !== undefined && { coldStart: `${spec.scaleToZero.coldStart}us` }),
          ...(options.outputs !== undefined && { outputs: options.outputs.split(",") }),
        });
      if (spec === undefined)
        await pipeline(model, options, { ask, checkName: () => checkAskedName(model, nats, cluster) });
      else await served(spec, { ...options, seed }, ask);
    } finally {
      client.close();
    }
  });
}

type Ask = (inputs: Inputs) => Promise<InferResult>;

async function served(
  spec: ModelSpec,
  options: Pick<InferCommandOptions, "input" | "json"> & { readonly seed: number },
  ask: Ask,
): Promise<void> {
  const { name, version } = spec;
  const json = options.json === true;
  const input: ReadInput =
    options.input === undefined
      ? { kind: "one", inputs: randomInputs(spec, options.seed) }
      : await readInput(options.input, spec);
  if (input.kind === "frames") return frames(spec, input, ask, json);
  const answer = await timed(() => ask(input.inputs));
  const meaning = await meaningOf(spec, answer.result);
  printAnswer({ ...answer, name, version: answer.result.version ?? version, meaning }, json);
}

interface PipelinePorts {
  readonly ask: Ask;
  /** @throws {TuttiError} NOT_FOUND: no pipeline has the name either */
  readonly checkName: () => Promise<void>;
}

/**
 * Asks a pipeline. The store doesn't list pipelines: only an ingress knows whether it serves one of this name. Its
 * reports come once a second, so they are waited for only where the request can't be sent.
 */
async function pipeline(name: string, options: InferCommandOptions, { ask, checkName }: PipelinePorts): Promise<void> {
  const { input } = options;
  if (input === undefined) {
    await checkName();
    throw new CommandError(`"${name}" is a pipeline, and a pipeline needs --input`);
  }
  const inputs = await readPipelineInput(input).catch(async (error: unknown) => {
    await checkName();
    throw error;
  });
  const answer = await timed(() => ask(inputs));
  const meaning = linesMeaning(answer.result);
  printAnswer({ ...answer, name, version: answer.result.version, meaning }, options.json === true);
}

interface Answer {
  readonly name: string;
  /** Undefined: binary answers don't name it. */
  readonly version: string | undefined;
  readonly result: InferResult;
  readonly latencyMs: number;
  readonly meaning: Meaning | undefined;
}

async function timed(ask: () => Promise<InferResult>): Promise<Pick<Answer, "result" | "latencyMs">> {
  const startedAt = performance.now();
  const result = await ask();
  return { result, latencyMs: Number((performance.now() - startedAt).toFixed(3)) };
}

function printAnswer({ name, version, latencyMs, result, meaning }: Answer, json: boolean): void {
  if (json) {
    const outputs = outputsAsJson(result);
    print(JSON.stringify({ model: name, version, latencyMs, outputs, ...(meaning && { meaning: meaning.value }) }));
    return;
  }
  print(meaning?.text ?? renderOutputs(result));
  const versionText = version === undefined ? "" : `, version ${version}`;
  print(`${name}${versionText}, ${latencyMs.toFixed(1)} ms from here and back`);
}

/** Sends frame after frame: each takes the state that the one before it returned. */
async function frames(
  spec: ModelSpec,
  { audio, frames }: ReadInput & { kind: "frames" },
  ask: Ask,
  json: boolean,
): Promise<void> {
  let state: TensorValue = tensorValue(initialState(audio));
  const meanings: { readonly atMs: number; readonly meaning: Meaning | undefined }[] = [];
  for (const [index, frame] of frames.entries()) {
    const result = await persistent(() => ask({ [audio.tensor]: frame, [audio.state.input]: state }));
    const next = result.outputs[audio.state.output];
    if (next === undefined) throw new CommandError(`${spec.name} gave no "${audio.state.output}" for the next frame`);
    state = next;
    const atMs = Math.round((index * audio.frame * 1000) / audio.sampleRate);
    const meaning = await meaningOf(spec, result);
    meanings.push({ atMs, meaning });
    if (!json) print(`${(atMs / 1000).toFixed(3).padStart(8)} s  ${meaning?.text ?? renderOutputs(result)}`);
  }
  if (json)
    print(
      JSON.stringify({ model: spec.name, frames: meanings.map(({ atMs, meaning }) => ({ atMs, ...meaning?.value })) }),
    );
}

const ATTEMPTS_MAX = 4;
/** Refusals for lack of time: the same frame may be served with a new deadline. */
const FOR_TIME: ReadonlySet<string> = new Set<ErrorCode>([
  "TUTTI_DEADLINE_INFEASIBLE",
  "TUTTI_DEADLINE_EXCEEDED",
  "TUTTI_OVERLOADED",
  "TUTTI_UNAVAILABLE",
]);

/**
 * Repeats a request that a busy machine refused for lack of time. A sound is hundreds of requests in a row, and each
 * needs the result of the one before it.
 */
async function persistent(ask: () => Promise<InferResult>): Promise<InferResult> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await ask();
    } catch (error) {
      if (attempt >= ATTEMPTS_MAX || !(error instanceof TuttiError) || !FOR_TIME.has(error.code)) throw error;
    }
  }
}
