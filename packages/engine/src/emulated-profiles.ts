/**
 * The document of `tutti up --emulate profiles.yaml`, once parsed from YAML or JSON, as models and their latencies. The schema stands in this
 * package's README.
 */
import {
  BATCH_AXIS,
  BATCH_SIZE_MAX,
  type DataType,
  type ModelSpec,
  MODELS_MAX,
  NAME_LENGTH_MAX,
  RANK_MAX,
  REQUEST_BYTES_MAX,
  SLO_US_MAX,
  TENSORS_MAX,
  type TensorSpec,
  TuttiError,
  isDataType,
  isName,
  rowLayout,
  sharesProblem,
} from "@tutti/protocol";
import { type Micros, millis } from "@tutti/units";
import type { EmulatedEngineOptions, LatencyOf } from "./emulated.ts";

/** A model as the document wants it; its number is given when the cluster takes it in. */
export type EmulatedModelSpec = Omit<ModelSpec, "number">;

export interface EmulatedProfiles {
  readonly models: readonly EmulatedModelSpec[];
  readonly latency: LatencyOf;
  readonly jitter: EmulatedEngineOptions["jitter"];
}

const BATCH_SIZE_DEFAULT = 64;
const PROBLEMS_MAX = 10;

/** @throws {TuttiError} TUTTI_INVALID_INPUT: one line for each problem (the first ten), naming its path, as in `models[0].sloMs` */
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

function parseModel(section: Section): { spec: EmulatedModelSpec; table: Micros[] } {
  section.only([
    "name",
    "alphaMs",
    "betaMs",
    "latencyMs",
    "batchMax",
    "sloMs",
    "patience",
    "shares",
    "inputs",
    "outputs",
  ]);
  const name = section.text("name");
  if (name !== "" && !isName(name)) {
    section.problem("name", `is 1 to ${NAME_LENGTH_MAX} letters, digits, "-" and "_", the first a letter or a digit`);
  }
  const table = parseTable(section);
  const slo = section.number("sloMs", { above: 0, most: SLO_US_MAX / 1000 });
  const patience = section.number("patience", { least: 0, most: 1, otherwise: 1 });
  const shares = section.value("shares");
  const problem = shares === undefined ? undefined : sharesProblem(shares);
  if (problem !== undefined) section.problem("shares", `has no good weights: ${problem}`);
  const inputs = parseTensors(section, "inputs", "x");
  const outputs = parseTensors(section, "outputs", "y");
  const spec: EmulatedModelSpec = {
    name,
    version: "1",
    engine: "emulated",
    slo: millis(slo),
    batchSizeMax: Math.max(1, table.length),
    patience,
    ...(shares !== undefined && problem === undefined && { shares: shares as Record<string, number> }),
    inputs,
    outputs,
    constants: [],
    axes: {},
    buckets: [{}],
    profile: [table.map((latency, i) => ({ batchSize: i + 1, latency }))],
  };
  for (const [field, tensors] of Object.entries({ inputs, outputs })) {
    const bytes = rowLayout({ ...spec, number: 0, inputs: tensors }, 0).byteLength;
    if (bytes > REQUEST_BYTES_MAX)
      section.problem(field, `make ${bytes} bytes a request; at most ${REQUEST_BYTES_MAX}`);
  }
  return { spec, table };
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

function parseTensors(section: Section, field: string, defaultName: string): TensorSpec[] {
  if (section.value(field) === undefined) return [{ name: defaultName, type: "FP32", dims: [BATCH_AXIS, 1] }];
  const names = new Set<string>();
  return section.list(field, TENSORS_MAX).map((entry) => {
    entry.only(["name", "type", "dims"]);
    const name = entry.text("name");
    if (names.has(name)) entry.problem("name", `${name} is there twice`);
    names.add(name);
    return { name, type: parseType(entry), dims: parseDims(entry) };
  });
}

function parseType(section: Section): DataType {
  const type = section.value("type") ?? "FP32";
  if (typeof type === "string" && isDataType(type)) return type;
  section.problem("type", `${JSON.stringify(type)} is no element type that is served (FP32, INT64, UINT8, …)`);
  return "FP32";
}

function parseDims(section: Section): (number | string)[] {
  const dims = section.value("dims");
  const isDim = (dim: unknown): dim is number | string =>
    dim === BATCH_AXIS || (typeof dim === "number" && Number.isInteger(dim) && dim >= 1 && dim <= REQUEST_BYTES_MAX);
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

class Problems {
  readonly #lines: string[] = [];
  add(path: string, text: string): void {
    if (this.#lines.length < PROBLEMS_MAX) this.#lines.push(`${path === "" ? "the document" : path}: ${text}`);
  }
  throwIfAny(): void {
    if (this.#lines.length > 0) throw new TuttiError("TUTTI_INVALID_INPUT", this.#lines.join("\n"));
  }
}

interface Range {
  readonly above?: number;
  readonly least?: number;
  readonly below?: number;
  readonly most?: number;
  readonly whole?: boolean;
}

/** A mapping of the document and where it stands. Reading what isn't there notes a problem and goes on with a value that makes no second one. */
class Section {
  readonly #path: string;
  readonly #problems: Problems;
  readonly #fields: Readonly<Record<string, unknown>>;

  constructor(value: unknown, path: string, problems: Problems) {
    this.#path = path;
    this.#problems = problems;
    const isMapping = typeof value === "object" && value !== null && !Array.isArray(value);
    if (!isMapping) problems.add(path, "is a mapping of names to values");
    this.#fields = isMapping ? (value as Record<string, unknown>) : {};
  }

  problem(field: string, text: string): void {
    this.#problems.add(this.#path === "" ? field : `${this.#path}.${field}`, text);
  }
  value(field: string): unknown {
    return Object.hasOwn(this.#fields, field) ? (this.#fields[field] ?? undefined) : undefined;
  }
  only(known: readonly string[]): this {
    for (const field of Object.keys(this.#fields)) {
      if (!known.includes(field)) this.problem(field, `is unknown here; known are ${known.join(", ")}`);
    }
    return this;
  }
  text(field: string): string {
    const value = this.value(field);
    if (typeof value === "string" && value !== "" && value.length <= NAME_LENGTH_MAX) return value;
    this.problem(field, value === undefined ? "is missing" : `is a text of 1 to ${NAME_LENGTH_MAX} characters`);
    return "";
  }
  number(field: string, range: Range & { readonly otherwise?: number }): number {
    const value = this.value(field);
    if (value === undefined && range.otherwise !== undefined) return range.otherwise;
    return this.#checked(field, value, range);
  }
  numbers(field: string, range: Range, lengthMax: number): number[] {
    const value = this.value(field);
    if (Array.isArray(value) && value.length >= 1 && value.length <= lengthMax) {
      return value.map((item, i) => this.#checked(`${field}[${i}]`, item, range));
    }
    this.problem(field, `is a list of 1 to ${lengthMax} numbers`);
    return [1];
  }
  list(field: string, lengthMax: number): Section[] {
    const value = this.value(field);
    if (Array.isArray(value) && value.length >= 1 && value.length <= lengthMax) {
      const path = this.#path === "" ? field : `${this.#path}.${field}`;
      return value.map((item, i) => new Section(item, `${path}[${i}]`, this.#problems));
    }
    this.problem(field, value === undefined ? "is missing" : `is a list of 1 to ${lengthMax} entries`);
    return [];
  }

  #checked(field: string, value: unknown, range: Range): number {
    const { above = -Infinity, least = -Infinity, below = Infinity, most = Infinity, whole = false } = range;
    if (value === undefined) this.problem(field, "is missing");
    else if (typeof value !== "number" || !Number.isFinite(value)) {
      this.problem(field, `${JSON.stringify(value)} is no number`);
    } else if (
      value <= above ||
      value < least ||
      value >= below ||
      value > most ||
      (whole && !Number.isInteger(value))
    ) {
      this.problem(field, `is ${value}, but should be ${describe(range)}`);
    } else return value;
    return Math.max(1, least === -Infinity ? 1 : least);
  }
}

function describe({ above, least, below, most, whole }: Range): string {
  const bounds = [
    above === undefined ? "" : `above ${above}`,
    least === undefined ? "" : `at least ${least}`,
    below === undefined ? "" : `below ${below}`,
    most === undefined ? "" : `at most ${most}`,
  ];
  return `${whole === true ? "a whole number " : ""}${bounds.filter((bound) => bound !== "").join(" and ")}`;
}
