import { type InferResult, ModelRegistry, TuttiClient, type TensorValue, tensorValue } from "@tutti/client";
import { initialState } from "@tutti/onnx-tools";
import { type ErrorCode, type ModelSpec, TuttiError, isName } from "@tutti/protocol";
import { type ClusterOptions, findCluster } from "../cluster.ts";
import { openConnection } from "../connection.ts";
import { CommandError, usageError } from "../failure.ts";
import { type Inputs, type ReadInput, randomInputs, readInput } from "../present/input-file.ts";
import { type Meaning, meaningOf, outputsAsJson, renderOutputs } from "../present/output-text.ts";

export interface InferCommandOptions extends ClusterOptions {
  readonly input?: string;
  readonly app: string;
  readonly slo?: string;
  readonly form: string;
  readonly outputs?: string;
  readonly seed: string;
  readonly json?: boolean;
}

const FORMS = ["binary", "json", "msgpack"] as const;

/** `tutti infer <model>`: one request, or one for each frame of a sound. */
export async function infer(model: string, options: InferCommandOptions): Promise<void> {
  const form = FORMS.find((candidate) => candidate === options.form);
  if (form === undefined) throw usageError(`--form ${options.form}: take one of ${FORMS.join(", ")}`);
  if (!isName(options.app)) throw usageError(`--app ${options.app}: letters, digits, "-" and "_" only`);
  const cluster = await findCluster(options);
  const nats = await openConnection({
    servers: cluster.servers,
    credentials: cluster.credentials, // an operator's: an application's may not read what models there are
    tlsCa: cluster.tlsCa,
    name: "tutti-infer",
    inboxPrefix: `_INBOX.${options.app}`,
  });
  const client = new TuttiClient(nats.bulk, { app: options.app });
  try {
    const spec = await new ModelRegistry(nats.store).get(model);
    // Without a spec there is nothing to present; the ingress says what is loaded.
    if (spec === undefined) throw new CommandError(`no model "${model}" is loaded: \`tutti models\` lists what is`);
    const input: ReadInput =
      options.input === undefined
        ? { kind: "one", inputs: randomInputs(spec, Number(options.seed)) }
        : await readInput(options.input, spec);
    const ask = (inputs: Inputs): Promise<InferResult> =>
      client.infer(model, inputs, {
        form,
        ...(options.slo !== undefined && { slo: options.slo }),
        ...(options.outputs !== undefined && { outputs: options.outputs.split(",") }),
      });
    if (input.kind === "one") await one(spec, input.inputs, ask, options.json === true);
    else await frames(spec, input, ask, options.json === true);
  } finally {
    client.close();
    await nats.close();
  }
}

type Ask = (inputs: Inputs) => Promise<InferResult>;

async function one(spec: ModelSpec, inputs: Inputs, ask: Ask, json: boolean): Promise<void> {
  const startedAt = performance.now();
  const result = await ask(inputs);
  const latencyMs = Number((performance.now() - startedAt).toFixed(3));
  const meaning = await meaningOf(spec, result);
  if (json) {
    const version = result.version ?? spec.version;
    print(
      JSON.stringify({
        model: spec.name,
        version,
        latencyMs,
        outputs: outputsAsJson(result),
        ...(meaning && { meaning: meaning.value }),
      }),
    );
    return;
  }
  print(meaning?.text ?? renderOutputs(result));
  print(`${spec.name}, version ${result.version ?? spec.version}, ${latencyMs.toFixed(1)} ms from here and back`);
}

/** Frame after frame: each takes the state that the one before it gave. */
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
/** Refusals for time: the same frame with a new deadline may well be served. */
const FOR_TIME: ReadonlySet<string> = new Set<ErrorCode>([
  "TUTTI_DEADLINE_INFEASIBLE",
  "TUTTI_DEADLINE_EXCEEDED",
  "TUTTI_OVERLOADED",
  "TUTTI_UNAVAILABLE",
]);

/** A sound is hundreds of requests in a row, each of which needs the one before it: one that a busy machine refused is asked again. */
async function persistent(ask: () => Promise<InferResult>): Promise<InferResult> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await ask();
    } catch (error) {
      if (attempt >= ATTEMPTS_MAX || !(error instanceof TuttiError) || !FOR_TIME.has(error.code)) throw error;
    }
  }
}

const print = (line: string): void => void process.stdout.write(`${line}\n`);
