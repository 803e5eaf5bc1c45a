/**
 * Triton's keys of a model's configuration (`config.pbtxt` as JSON or YAML), and what becomes of them. Tutti's own
 * answer to `/config` has that form too. Pure; docs/guides/from-triton.md lists them for people.
 */
import type { ModelConfig } from "./model-config.ts";
import { parseTextFormat } from "./text-format.ts";

type Given = Readonly<Record<string, unknown>>;
type Fail = (text: string) => never;
/** Tutti's keys for a value of Triton's; "own": it is Tutti's already; undefined: it is passed over. */
type Meaning = (value: unknown, fail: Fail) => ModelConfig | "own" | undefined;

const BACKENDS: ReadonlySet<unknown> = new Set(["", "onnxruntime", "onnxruntime_onnx"]);
const onnxOnly: Meaning = (value, fail) =>
  BACKENDS.has(value) ? {} : fail(`'${String(value)}' can't be served: export the model to ONNX, for onnxruntime`);
/** Its tensors are Triton's where they say a `data_type`: without the batch axis, and as the file has them. */
const ofFile: Meaning = (value) => (isTensors(value) ? undefined : "own");
const PASSED_OVER: readonly string[] = [
  ...["dynamic_batching", "sequence_batching", "instance_group", "version_policy", "optimization"],
  ...["default_model_filename", "cc_model_filenames", "metric_tags", "batch_input", "batch_output"],
  ...["model_operations", "model_transaction_policy", "model_repository_agents", "model_metrics"],
  ...["model_warmup", "response_cache", "runtime"],
];

/** Only these; others are typing errors. */
const MEANINGS: ReadonlyMap<string, Meaning> = new Map(
  Object.entries<Meaning>({
    backend: onnxOnly,
    platform: onnxOnly,
    max_batch_size: (value) => (value === 0 ? { max_batch_size: 1 } : "own"), // Triton's 0: no batch axis
    input: ofFile,
    output: ofFile,
    parameters: (value, fail) => (isRecord(value) ? ofParameters(value, fail) : fail("a mapping is expected")),
    ensemble_scheduling: (_, fail) => fail("models of models are declared as pipelines (packages/pipelines)"),
    ...Object.fromEntries(PASSED_OVER.map((key) => [key, (): undefined => undefined])),
  }),
);

/** Parameters that Tutti reads: those of its own `/config`, and `slo`. */
const PARAMETERS: ReadonlyMap<string, (text: string) => ModelConfig> = new Map(
  Object.entries<(text: string) => ModelConfig>({
    slo: (slo) => ({ slo }),
    slo_us: (text) => ({ slo: `${text}us` }),
    patience: (text) => ({ patience: numberOf(text) }),
    batch_size_max: (text) => ({ max_batch_size: numberOf(text) }),
    preprocess: (text) => ({ presentation: { input: JSON.parse(text) as unknown } }),
  }),
);

function ofParameters(parameters: Given, fail: Fail): ModelConfig {
  return Object.entries(parameters).reduce<ModelConfig>((config, [name, value]) => {
    const read = PARAMETERS.get(name);
    if (read === undefined) return config;
    const text = isRecord(value) ? value["string_value"] : value;
    if (typeof text !== "string") return fail(`${name}: {string_value: …} is expected`);
    try {
      return { ...config, ...read(text) };
    } catch {
      return fail(`${name}: '${text}' can't be read`);
    }
  }, {});
}

/**
 * The configuration without Triton's keys, with what they mean in place of them; its own keys come first.
 *
 * @returns the same object where it has none
 */
export function withoutTriton(given: Given, fail: Fail): Given {
  const own: Record<string, unknown> = {};
  let meant: ModelConfig = {};
  for (const [key, value] of Object.entries(given)) {
    const meaning = MEANINGS.get(key);
    const said = meaning === undefined ? "own" : meaning(value, (text) => fail(`${key}: ${text}`));
    if (said === "own") own[key] = value;
    else meant = { ...meant, ...said };
  }
  return Object.keys(own).length === Object.keys(given).length ? given : { ...meant, ...own };
}

/** A `config.pbtxt` in the form that it has as JSON. @throws {SyntaxError} naming the line */
export function parsePbtxt(text: string): Given {
  const given: Given = parseTextFormat(text);
  const { parameters } = given;
  const listed = Object.fromEntries(
    ["input", "output"].flatMap((key) => (key in given ? [[key, [given[key]].flat()]] : [])),
  );
  if (parameters === undefined) return { ...given, ...listed };
  // The text has a map's entries one by one.
  const entries = [parameters].flat().map((entry): [string, unknown] => {
    if (isRecord(entry) && typeof entry["key"] === "string") return [entry["key"], entry["value"]];
    throw new SyntaxError('parameters: { key: "…" value: { string_value: "…" } } is expected');
  });
  return { ...given, ...listed, parameters: Object.fromEntries(entries) };
}

/** Triton's keys and parameters in it that change nothing here, for people. */
export function passedOverKeys(given: unknown): string[] {
  if (!isRecord(given)) return [];
  const ignore: Fail = () => undefined as never;
  const isPassedOver = (key: string): boolean => {
    const meaning = MEANINGS.get(key);
    return meaning !== undefined && meaning(given[key], ignore) === undefined;
  };
  const parameters = isRecord(given["parameters"]) ? Object.keys(given["parameters"]) : [];
  const unknown = parameters.filter((name) => !PARAMETERS.has(name));
  return [...Object.keys(given).filter(isPassedOver), ...unknown.map((name) => `parameters.${name}`)];
}

/** @throws {SyntaxError} */
function numberOf(text: string): number {
  const number = Number(text);
  if (text.trim() !== "" && Number.isFinite(number)) return number;
  throw new SyntaxError("no number");
}
const isRecord = (value: unknown): value is Given =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isTensors = (value: unknown): boolean =>
  Array.isArray(value) && value.length > 0 && value.every((one) => isRecord(one) && "data_type" in one);
