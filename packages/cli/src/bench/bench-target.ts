/** Turns a mix into requests: model descriptions from the cluster, inputs read or drawn, and encoded once. */
import { HttpTarget, type LoadStream, NatsTarget, type Target, modelPath, oipBody } from "@tutti/bench";
import type { NatsConnection } from "@tutti/bus-nats";
import { toWire } from "@tutti/client";
import { ModelRegistry, askedSpec } from "@tutti/client/registries";
import { type ModelSpec, type Tensor, type TensorSpec, isDataType } from "@tutti/protocol";
import { type Micros, parseDuration, shownAddresses } from "@tutti/units";
import { encodeTensors } from "@tutti/wire";
import { CommandError, EXIT } from "@tutti/admin";
import { type ClusterOptions, busInNameOf, findCluster, openCluster, unlessDenied } from "@tutti/admin/cluster";
import { checkAskedName } from "../present/asked-name.ts";
import { type Inputs, type Readable, randomInputs, readInput } from "../present/input-file.ts";
import { readPipelineInput } from "../present/pipeline-file.ts";
import type { MixEntry } from "./mix.ts";

/** A destination for load: its streams, and a new target for each trial. */
export interface Destination {
  /** Name for people: `nats://…`. */
  readonly name: string;
  readonly streams: readonly LoadStream[];
  target(): Target;
  close(): Promise<void>;
}

export interface DestinationOptions {
  readonly mix: readonly MixEntry[];
  /** Replaces every other SLO. */
  readonly slo: Micros | undefined;
  /** Input files by model; `*`: for all other models. */
  readonly inputs: ReadonlyMap<string, string>;
  readonly seed: number;
}

/** One entry of the mix with its stream and its input tensors. */
interface Prepared {
  readonly stream: LoadStream;
  readonly tensors: readonly Tensor[];
}

/** A publisher connects once for each application: replies arrive below the application's inbox. */
const APPS_MAX = 64;

export async function overNats(options: DestinationOptions, named: ClusterOptions): Promise<Destination> {
  const cluster = await findCluster(named);
  const apps = [...new Set(options.mix.map(({ app }) => app))];
  if (apps.length > APPS_MAX)
    throw new CommandError(
      `${apps.length} applications: at most ${APPS_MAX} over NATS, which has a connection for each`,
    );
  const connections = new Map<string, NatsConnection>();
  const close = async (): Promise<void> => {
    for (const nats of connections.values()) await nats.close();
  };
  try {
    for (const app of apps) {
      const nats = await openCluster(cluster, { name: "tutti-bench" });
      connections.set(app, nats);
    }
    const first = connections.get(apps[0]!)!;
    const registry = new ModelRegistry(first.store);
    const prepared: Prepared[] = [];
    for (const entry of options.mix) {
      const spec = await unlessDenied(first, cluster, async () => {
        const found = await askedSpec(registry, entry.model);
        if (found === undefined) await checkAskedName(entry.model, first, cluster.cluster);
        return found;
      });
      prepared.push(await prepare(entry, spec, options));
    }
    const buses = new Map([...connections].map(([app, { bulk }]) => [app, busInNameOf(app, bulk)]));
    const streams = prepared.map(({ stream, tensors }) => ({
      ...stream,
      bus: buses.get(stream.app)!,
      payload: encodeTensors(tensors),
    }));
    return {
      name: shownAddresses(cluster.servers),
      streams: prepared.map(({ stream }) => stream),
      target: () => new NatsTarget(streams),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

export interface HttpOptions {
  readonly url: string;
  readonly connections: number;
}

export async function overHttp(options: DestinationOptions, { url, connections }: HttpOptions): Promise<Destination> {
  const prepared: Prepared[] = [];
  for (const entry of options.mix) prepared.push(await prepare(entry, await describedBy(url, entry.model), options));
  const streams = prepared.map(({ stream: { model, app }, tensors }) => ({ model, app, body: oipBody(tensors) }));
  return {
    name: url,
    streams: prepared.map(({ stream }) => stream),
    target: () => new HttpTarget({ url, streams, connections }),
    close: () => Promise.resolve(),
  };
}

type Described = Readable & Pick<ModelSpec, "slo">;

async function prepare(
  entry: MixEntry,
  spec: Described | undefined,
  { slo, inputs, seed }: DestinationOptions,
): Promise<Prepared> {
  const { model, app, weight } = entry;
  const within = slo ?? entry.slo ?? spec?.slo;
  if (within === undefined) throw new CommandError(`"${model}" is a pipeline: give --slo and --input`);
  const file = entry.input ?? inputs.get(model) ?? inputs.get("*");
  const values = await inputsOf(spec, { model, file, seed });
  const tensors = Object.entries(values).map(([name, value]) => toWire(name, value));
  return { stream: { model, app, weight, slo: within }, tensors };
}

async function inputsOf(
  spec: Described | undefined,
  { model, file, seed }: { readonly model: string; readonly file: string | undefined; readonly seed: number },
): Promise<Inputs> {
  if (spec === undefined) {
    if (file === undefined) throw new CommandError(`"${model}" is a pipeline, and a pipeline needs --input`);
    return readPipelineInput(file);
  }
  if (file === undefined) return randomInputs(spec, seed);
  const read = await readInput(file, spec);
  if (read.kind === "one") return read.inputs;
  throw new CommandError(`--input ${file}: a sound is many requests in a row; give one frame as JSON`);
}

/**
 * Reads a model's description from a gateway: shapes from its metadata, the SLO from its configuration.
 * @throws {CommandError}
 */
async function describedBy(url: string, model: string): Promise<Described> {
  const metadata = await getJson(url, modelPath(model));
  const config = await getJson(url, `${modelPath(model)}/config`);
  const given = (config["parameters"] as Record<string, { string_value?: string }> | undefined)?.["slo_us"]
    ?.string_value;
  const slo = given === undefined ? undefined : parseDuration(`${given}us`);
  const inputs = Array.isArray(metadata["inputs"]) ? metadata["inputs"].map(tensorSpecOf) : [];
  if (inputs.length === 0 || slo === undefined)
    throw new CommandError(`${url} doesn't say what ${model} takes: is it a gateway of Tutti?`);
  return { name: model, inputs, axes: {}, buckets: [{}], slo };
}

/** The first axis of a row is its batch; other variable axes have length 1 without a file. */
function tensorSpecOf(tensor: unknown): TensorSpec {
  const { name, datatype, shape } = tensor as Record<string, unknown>;
  const isTyped = typeof name === "string" && typeof datatype === "string" && isDataType(datatype);
  if (!isTyped || !Array.isArray(shape))
    throw new CommandError(`an input that can't be read: ${JSON.stringify(tensor)}`);
  const dims = (shape as number[]).map((dim, i) => (dim >= 0 ? dim : i === 0 ? "batch" : 1));
  return { name, type: datatype, dims };
}

const ANSWER_WITHIN_MS = 10_000;

async function getJson(url: string, path: string): Promise<Record<string, unknown>> {
  let response: Response;
  try {
    response = await fetch(new URL(path, url), { signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
  } catch (error) {
    const { cause } = error as { cause?: { code?: string } };
    throw new CommandError(
      `${url} can't be reached (${cause?.code ?? (error as Error).message})`,
      EXIT.unavailable,
      error,
    );
  }
  const body = (await response.json().catch(() => ({}))) as Record<string, unknown>;
  if (response.ok) return body;
  throw new CommandError(`${url}${path}: ${typeof body["error"] === "string" ? body["error"] : response.status}`);
}
