/**
 * Turns the document of `tutti up --emulate profiles.yaml`, parsed from YAML or JSON, into models and their latencies.
 * This package's README has the schema.
 */
import {
  BATCH_AXIS,
  BATCH_SIZE_MAX,
  type DataType,
  type ModelSpec,
  MODELS_MAX,
  NAME_LENGTH_MAX,
  type PaceSpec,
  RANK_MAX,
  REQUEST_BYTES_MAX,
  SLO_US_MAX,
  TENSORS_MAX,
  type TensorSpec,
  isDataType,
  isName,
  rowLayout,
  sharesProblem,
} from "@tutti/protocol";
import { type Micros, millis, parseBytes } from "@tutti/units";
import type { EmulatedEngineOptions, LatencyOf } from "./emulated.ts";
import { Problems, Section } from "./document-section.ts";
import { latencyAt, parsePace } from "./emulated-pace.ts";

/** A model as the document describes it, without the number that the cluster assigns. */
export type EmulatedModelSpec = Omit<ModelSpec, "number">;

export interface EmulatedProfiles {
  readonly models: readonly EmulatedModelSpec[];
  readonly latency: LatencyOf;
  readonly jitter: EmulatedEngineOptions["jitter"];
}

const BATCH_SIZE_DEFAULT = 64;

/**
 * @throws {TuttiError} TUTTI_INVALID_INPUT: one line for each problem (the first ten), naming its path, as in
 *   `models[0].sloMs`
 */
export function parseEmulatedProfiles(document: unknown): EmulatedProfiles {
  const problems = new Problems();
  const root = new Section(document, "", problems).only(["models", "jitter", "seed"]);
  const entries = root.list("models", MODELS_MAX);
  const parsed = entries.map((entry) => parseModel(entry));
  const names = new Set<string>();
  parsed.forEach(({ spec }, i) => {
    if (names.has(spec.name)) problems.add(`models[${i}].name`, `${spec.name} is there twice`);
    names.add(spec.name);
  });
  const spread = root.number("jitter", { least: 0, below: 1, otherwise: 0 });
  const seed = root.number("seed", { least: 0, below: 2 ** 32, otherwise: 1, whole: true });
  problems.throwIfAny();

  const tables = new Map(parsed.map(({ spec, table }) => [spec.name, table]));
  return {
    models: parsed.map(({ spec }) => spec),
    latency: (model, bucket, batchSize) => (bucket === 0 ? tables.get(model)?.[batchSize - 1] : undefined),
    jitter: spread === 0 ? undefined : { seed, spread },
  };
}

interface ParsedModel {
  readonly spec: EmulatedModelSpec;
  readonly table: readonly Micros[];
}

function parseModel(section: Section): ParsedModel {
  section.only([
    "name",
    "alphaMs",
    "betaMs",
    "latencyMs",
    "dynamic",
    "batchMax",
    "sloMs",
    "patience",
    "shares",
    "memory",
    "inputs",
    "outputs",
  ]);
  const name = section.text("name");
  if (name !== "" && !isName(name)) {
    section.problem("name", `is 1 to ${NAME_LENGTH_MAX} letters, digits, "-" and "_", the first a letter or a digit`);
  }
  const pace = section.value("dynamic") === undefined ? undefined : parsePace(section.section("dynamic"));
  const table = pace === undefined ? parseTable(section) : tableOfPace(section, pace);
  const slo = section.number("sloMs", { above: 0, most: SLO_US_MAX / 1000 });
  const patience = section.number("patience", { least: 0, most: 1, otherwise: 1 });
  const shares = section.value("shares");
  const problem = shares === undefined ? undefined : sharesProblem(shares);
  if (problem !== undefined) section.problem("shares", `has no good weights: ${problem}`);
  const memory = section.value("memory");
  const memoryBytes = memory === undefined ? undefined : parseBytes(String(memory));
  if (memory !== undefined && memoryBytes === undefined) section.problem("memory", "is a size, such as 512MB");
  const axis = pace?.axis;
  const inputs = parseTensors(section, { field: "inputs", name: "x", axis });
  const outputs = parseTensors(section, { field: "outputs", name: "y", axis });
  if (axis !== undefined && !inputs.some(({ dims }) => dims.includes(axis)))
    section.problem("dynamic.axis", `${axis} is in the dims of no input`);
  const spec: EmulatedModelSpec = {
    name,
    version: "1",
    engine: "emulated",
    slo: millis(slo),
    batchSizeMax: Math.max(1, table.length),
    patience,
    ...(shares !== undefined && problem === undefined && { shares: shares as Record<string, number> }),
    ...(memoryBytes !== undefined && { memory: memoryBytes }),
    inputs,
    outputs,
    constants: [],
    axes:
      pace?.axis === undefined
        ? {}
        : { [pace.axis]: { mode: "pad", sizes: [pace.max], padValue: 0, typical: pace.typical } },
    buckets: [{}],
    ...(pace !== undefined && { pace }),
    profile: [table.map((latency, i) => ({ batchSize: i + 1, latency }))],
  };
  for (const [field, tensors] of Object.entries({ inputs, outputs })) {
    const bytes = rowLayout({ ...spec, inputs: tensors }, 0).byteLength;
    if (bytes > REQUEST_BYTES_MAX)
      section.problem(field, `make ${bytes} bytes a request; at most ${REQUEST_BYTES_MAX}`);
  }
  return { spec, table };
}

/** Latency table at the typical length, as a profiler would measure it. */
function tableOfPace(section: Section, pace: PaceSpec): Micros[] {
  for (const other of ["alphaMs", "betaMs", "latencyMs"]) {
    if (section.value(other) !== undefined) section.problem(other, "stands beside dynamic: give one or the other");
  }
  const length = section.number("batchMax", {
    least: 1,
    most: BATCH_SIZE_MAX,
    otherwise: BATCH_SIZE_DEFAULT,
    whole: true,
  });
  return Array.from({ length }, (_, i) => latencyAt(pace, i + 1, pace.typical));
}

/** l(1) … l(batchMax): from `alphaMs`·b + `betaMs`, or as listed in `latencyMs`. */
function parseTable(section: Section): Micros[] {
  const listed = section.value("latencyMs") !== undefined;
  const sizeMax = section.number("batchMax", { least: 1, most: BATCH_SIZE_MAX, otherwise: NaN, whole: true });
  if (!listed) {
    const alpha = section.number("alphaMs", { least: 0, most: SLO_US_MAX / 1000 });
    const beta = section.number("betaMs", { least: 0, most: SLO_US_MAX / 1000 });
    if (alpha + beta <= 0) section.problem("alphaMs", "and betaMs can't both be 0: a batch takes some time");
    const length = Number.isNaN(sizeMax) ? BATCH_SIZE_DEFAULT : sizeMax;
    return Array.from({ length }, (_, i) => millis(alpha * (i + 1) + beta));
  }
  for (const other of ["alphaMs", "betaMs"]) {
    if (section.value(other) !== undefined) section.problem(other, "stands beside latencyMs: give one or the other");
  }
  const table = section.numbers("latencyMs", { above: 0, most: SLO_US_MAX / 1000 }, BATCH_SIZE_MAX);
  const falls = table.findIndex((latency, i) => latency < (table[i - 1] ?? 0));
  if (falls > 0) section.problem(`latencyMs[${falls}]`, `is less than that of a batch of ${falls}`);
  if (sizeMax > table.length) section.problem("batchMax", `is ${sizeMax}, but latencyMs has ${table.length} entries`);
  return table.slice(0, Number.isNaN(sizeMax) ? table.length : sizeMax).map(millis);
}

interface WantedTensors {
  readonly field: string;
  /** Name of the one default tensor, if the document gives none. */
  readonly name: string;
  /** The axis that may vary. */
  readonly axis: string | undefined;
}

function parseTensors(section: Section, { field, name: defaultName, axis }: WantedTensors): TensorSpec[] {
  if (section.value(field) === undefined) return [{ name: defaultName, type: "FP32", dims: [BATCH_AXIS, axis ?? 1] }];
  const names = new Set<string>();
  return section.list(field, TENSORS_MAX).map((entry) => {
    entry.only(["name", "type", "dims"]);
    const name = entry.text("name");
    if (names.has(name)) entry.problem("name", `${name} is there twice`);
    names.add(name);
    return { name, type: parseType(entry), dims: parseDims(entry, axis) };
  });
}

function parseType(section: Section): DataType {
  const type = section.value("type") ?? "FP32";
  if (typeof type === "string" && isDataType(type)) return type;
  section.problem("type", `${JSON.stringify(type)} is no element type that is served (FP32, INT64, UINT8, …)`);
  return "FP32";
}

function parseDims(section: Section, axis: string | undefined): (number | string)[] {
  const dims = section.value("dims");
  const isDim = (dim: unknown): dim is number | string =>
    dim === BATCH_AXIS ||
    (axis !== undefined && dim === axis) ||
    (typeof dim === "number" && Number.isInteger(dim) && dim >= 1 && dim <= REQUEST_BYTES_MAX);
  if (
    Array.isArray(dims) &&
    dims.length <= RANK_MAX &&
    dims.every(isDim) &&
    dims.filter((dim) => dim === BATCH_AXIS).length === 1
  ) {
    return dims;
  }
  section.problem(
    "dims",
    `is a list of at most ${RANK_MAX} sizes, "${BATCH_AXIS}" once among them, as in [batch, 3, 224, 224]`,
  );
  return [BATCH_AXIS, 1];
}
