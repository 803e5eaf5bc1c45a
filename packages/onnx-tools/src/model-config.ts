/**
 * Builds a model's ModelSpec from its file and its `config.yaml`. The description of the file says what the model is;
 * the config says how it is to be served.
 *
 * The keys are Triton's where Triton has them (`name`, `max_batch_size`, `input`, `output`, `dims`), with one
 * difference: `dims` names the batch axis (`[batch, 3, 48, W]`), since it need not come first (Silero VAD's state is
 * `[2, batch, 128]`).
 */
import {
  BATCH_AXIS,
  BATCH_SIZE_MAX,
  type ConstantSpec,
  IDLE_LEAST,
  type ModelSpec,
  NAME_LENGTH_MAX,
  RANK_MAX,
  SLO_US_MAX,
  type ScaleToZero,
  TENSORS_MAX,
  type TensorSpec,
  TuttiError,
  bucketsOf,
  isName,
  mayMix,
  paddingProblem,
  sharesProblem,
} from "@tutti/protocol";
import { BUCKETS_MAX, type Micros, parseBytes, parseDuration } from "@tutti/units";
import { type AxesConfig, PARTS_MAX, axesOf, cutsOf, madeNames, madeOf } from "./axis-config.ts";
import type { ModelDescription, ValueDescription } from "./model-description.ts";
import { type PreprocessConfig, checkedMediaInput, preprocessOf } from "./preprocess-config.ts";

/** How to serve a model: the object that `config.yaml` holds. Every key but the SLO has a default. */
export interface ModelConfig extends AxesConfig {
  /** By default the name of the folder or file. */
  readonly name?: string;
  /** `30ms`; a bare number is milliseconds. */
  readonly slo?: string | number;
  readonly max_batch_size?: number;
  /** 0 (eager) … 1 (full deferral). */
  readonly patience?: number;
  /** Weights of applications under overload, by name; `*` for all others. By default an application's usual rate. */
  readonly shares?: Readonly<Record<string, number>>;
  /** Part of an application's share that its lower priorities keep, 0 … 1 (default 0.1). */
  readonly priority_floor?: number;
  /**
   * Time after which a run counts as hung and its executor is ended: `2s`; a bare number is milliseconds. By default
   * derived from the model's latency.
   */
  readonly run_deadline?: string | number;
  /**
   * An executor tries at load whether rows of a batch change each other's answers, and refuses such a model; true skips
   * that, for a model of which you know better.
   */
  readonly independent_rows?: boolean;
  /**
   * The model leaves its executors when nobody has asked for it for `idle` (`10m`; at least `5s`), and its first
   * request brings it back. Requests for it then have `cold_start` beyond their SLOs.
   */
  readonly scale_to_zero?: { readonly idle: string | number; readonly cold_start: string | number };
  /** Memory of the weights on an accelerator: `512MB`; a bare number is bytes. By default the size of the file. */
  readonly memory?: string | number;
  readonly version?: string;
  /**
   * Names for axes that the file leaves unnamed or names badly, and lengths of those that vary. Of outputs also shapes
   * that the file declares wrongly. Only differences from the file need be given.
   */
  readonly input?: readonly ValueConfig[];
  readonly output?: readonly ValueConfig[];
  /** Inputs that are the same for every request, by name. The executor feeds them; nobody sends them. */
  readonly constants?: Readonly<Record<string, number | readonly number[]>>;
  /**
   * How a posted picture or sound becomes the input: `{image: {size: [224, 224], mean: […], std: […]}}` or `{audio:
   * {sample_rate: 16000}}`.
   */
  readonly preprocess?: PreprocessConfig;
  /** How to show outputs to people: `{output: {kind: classes, tensor: probabilities, labels: […]}}`. */
  readonly presentation?: Readonly<Record<string, unknown>>;
}
export interface ValueConfig {
  readonly name: string;
  readonly dims: readonly (number | string)[];
}
/** A ModelSpec without what the cluster assigns: its number and its file's place in the object bucket. */
export interface ModelDraft extends Omit<ModelSpec, "number" | "file"> {
  readonly sha256: string;
  readonly bytes: number;
}

export const BATCH_SIZE_DEFAULT = 32;

/** Combines the file's description with the config. @throws {TuttiError} INVALID_INPUT naming the key to change */
export function draftModel(config: ModelConfig, description: ModelDescription): ModelDraft {
  const name = checkedName(config.name);
  const fail = (text: string): never => refuse(name, text);
  const constants = constantsOf(config, description.inputs, fail);
  const fed = new Set(constants.map((constant) => constant.name));
  const context: AxisContext = { declared: new Set(Object.keys(config.axes ?? {})), fail };
  const taken = description.inputs
    .filter((input) => !fed.has(input.name))
    .map((input) => tensorOf(input, override(config.input, input.name, fail), context));
  const ours = madeNames(config);
  const inputs = taken.filter(({ name: input }) => !ours.has(input));
  const made = madeOf(
    config,
    taken.filter(({ name: input }) => ours.has(input)),
    fail,
  );
  const outputs = description.outputs.map((output) => {
    const given = override(config.output, output.name, fail);
    // Nothing enforces the shapes of outputs, and some files declare others than their runs have.
    return tensorOf(given === undefined ? output : { ...output, dims: undefined }, given, context);
  });
  checkNames(config, description, fail);
  if (inputs.length === 0) fail("no input is left to send: every one is a constant or made of the others");
  if (inputs.length > TENSORS_MAX || outputs.length > TENSORS_MAX) fail(`more than ${TENSORS_MAX} inputs or outputs`);

  const axes = axesOf(config, inputs, fail);
  const buckets = bucketsOf(axes);
  const problem = paddingProblem({ axes, inputs, made });
  if (problem !== undefined) fail(`axes: ${problem}`);
  const cuts = cutsOf(config, { axes, outputs }, fail);
  if (buckets.length > BUCKETS_MAX)
    fail(`axes: ${buckets.length} combinations of sizes, at most ${BUCKETS_MAX} are served`);
  return {
    name,
    version: config.version ?? "1",
    engine: "onnx",
    slo: sloOf(config.slo, fail),
    batchSizeMax: batchSizeMaxOf(
      config,
      { inputs: [...inputs, ...made], outputs, description, mixed: mayMix({ axes }) },
      fail,
    ),
    patience: patienceOf(config.patience, fail),
    ...sharesOf(config, fail),
    ...(config.run_deadline !== undefined && { runDeadline: runDeadlineOf(config.run_deadline, fail) }),
    ...(config.independent_rows === true && { independentRows: true }),
    ...(config.scale_to_zero !== undefined && { scaleToZero: scaleToZeroOf(config.scale_to_zero, fail) }),
    ...(config.memory !== undefined && { memory: memoryOf(config.memory, fail) }),
    inputs,
    outputs,
    constants,
    axes,
    ...(made.length > 0 && { made }),
    ...(Object.keys(cuts).length > 0 && { cuts }),
    buckets,
    sha256: description.sha256,
    bytes: description.bytes,
    ...presentationFrom(config, { inputs, outputs }, fail),
  };
}

function presentationFrom(
  { preprocess, presentation }: ModelConfig,
  tensors: Parameters<typeof preprocessOf>[1],
  fail: Fail,
): Pick<ModelSpec, "presentation"> {
  checkedMediaInput(presentation?.["input"], fail);
  if (preprocess === undefined) return presentation === undefined ? {} : { presentation };
  if (presentation?.["input"] !== undefined) fail("preprocess and presentation.input say the same: keep preprocess");
  return { presentation: { ...presentation, input: preprocessOf(preprocess, tensors, fail) } };
}

/** Adds the number and the file's place, which the cluster assigns, to a draft. */
export function completeSpec(
  draft: ModelDraft,
  place: { readonly number: number; readonly object: string },
): ModelSpec {
  const { sha256, bytes, ...rest } = draft;
  return { ...rest, number: place.number, file: { object: place.object, sha256, bytes } };
}

type Fail = (text: string) => never;

function refuse(name: string, text: string): never {
  throw new TuttiError("TUTTI_INVALID_INPUT", `model ${name}: ${text}`, { retryable: false });
}

function checkedName(name: string | undefined): string {
  if (name !== undefined && isName(name)) return name;
  const text = `'${name ?? ""}' is no name for a model: letters, digits, - and _, at most ${NAME_LENGTH_MAX}, starting with a letter or digit`;
  throw new TuttiError("TUTTI_INVALID_INPUT", text, { retryable: false });
}

function override(values: readonly ValueConfig[] | undefined, name: string, fail: Fail): ValueConfig | undefined {
  const found = (values ?? []).filter((value) => value.name === name);
  if (found.length > 1) fail(`'${name}' is given twice`);
  return found[0];
}

/** Refuses a name that the file doesn't have: it is a typing error, and would otherwise silently do nothing. */
function checkNames(config: ModelConfig, description: ModelDescription, fail: Fail): void {
  const inputs = description.inputs.map(({ name }) => name);
  const outputs = description.outputs.map(({ name }) => name);
  for (const { name } of config.input ?? []) {
    if (!inputs.includes(name)) fail(`input: the file has no input '${name}'; it has ${inputs.join(", ")}`);
  }
  for (const { name } of config.output ?? []) {
    if (!outputs.includes(name)) fail(`output: the file has no output '${name}'; it has ${outputs.join(", ")}`);
  }
  for (const name of Object.keys(config.constants ?? {})) {
    if (!inputs.includes(name)) fail(`constants: the file has no input '${name}'; it has ${inputs.join(", ")}`);
  }
}

interface AxisContext {
  /** Axes that the config gives sizes for. */
  readonly declared: ReadonlySet<string>;
  readonly fail: Fail;
}

function tensorOf(described: ValueDescription, given: ValueConfig | undefined, context: AxisContext): TensorSpec {
  const { name, type } = described;
  const { fail } = context;
  const fromFile = described.dims;
  const dims = given?.dims ?? fromFile;
  if (dims === undefined) return fail(`'${name}': the file leaves its shape out; give it as dims in the config`);
  if (dims.length > RANK_MAX) fail(`'${name}' has ${dims.length} axes, at most ${RANK_MAX} are served`);
  if (given !== undefined && fromFile !== undefined) {
    const agrees = (dim: number | string, axis: number): boolean => {
      const own = fromFile[axis] as number | string;
      return typeof own === "string" || dim === own || (dim === BATCH_AXIS && own === 1);
    };
    if (dims.length !== fromFile.length || !dims.every(agrees)) {
      fail(`'${name}': dims [${dims.join(", ")}] don't agree with the file's [${fromFile.join(", ")}]`);
    }
  }
  return { name, type, dims: withBatchAxis(dims, context.declared) };
}

/**
 * Names the batch axis. It is the axis called `batch`, or else a leading axis that is 1, or variable without sizes of
 * its own.
 */
function withBatchAxis(dims: readonly (number | string)[], declared: ReadonlySet<string>): (number | string)[] {
  if (dims.includes(BATCH_AXIS)) return [...dims];
  const [first, ...rest] = dims;
  const leads = first === 1 || (typeof first === "string" && !declared.has(first));
  return leads ? [BATCH_AXIS, ...rest] : [...dims];
}

function constantsOf(config: ModelConfig, inputs: readonly ValueDescription[], fail: Fail): ConstantSpec[] {
  const constants: ConstantSpec[] = [];
  for (const input of inputs) {
    const given = config.constants?.[input.name];
    if (given === undefined) continue;
    const values = typeof given === "number" ? [given] : [...given];
    const dims = constantDims(input.dims ?? [], values.length);
    if (dims === undefined) {
      return fail(
        `constants.${input.name}: ${values.length} values don't fill its shape [${(input.dims ?? []).join(", ")}]`,
      );
    }
    if (/^U?INT/.test(input.type) && !values.every(Number.isSafeInteger)) {
      fail(`constants.${input.name}: ${input.type} takes whole numbers`);
    }
    constants.push({ name: input.name, type: input.type, dims, values });
  }
  return constants;
}

/** The shape that `count` values fill; one variable axis takes the rest. */
function constantDims(dims: readonly (number | string)[], count: number): number[] | undefined {
  const fixed = dims.reduce<number>((product, dim) => product * (typeof dim === "number" ? dim : 1), 1);
  const variable = dims.filter((dim) => typeof dim === "string").length;
  const free = variable === 0 ? 1 : count / fixed;
  if (variable > 1 || !Number.isInteger(free) || fixed * free !== count) return undefined;
  return dims.map((dim) => (typeof dim === "number" ? dim : free));
}

interface Shapes {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  readonly description: ModelDescription;
  readonly mixed: boolean;
}

function batchSizeMaxOf(config: ModelConfig, shapes: Shapes, fail: Fail): number {
  const tensors = [...shapes.inputs, ...shapes.outputs];
  const unbatched = tensors.find(({ dims }) => !dims.includes(BATCH_AXIS));
  // A file whose leading axis is fixed at 1 serves one item a run, whatever the config asks.
  const fixed = shapes.description.inputs.find(
    ({ name, dims }) =>
      dims?.[shapes.inputs.find((input) => input.name === name)?.dims.indexOf(BATCH_AXIS) ?? -1] === 1,
  );
  const limit = unbatched !== undefined || fixed !== undefined ? 1 : shapes.mixed ? BATCH_SIZE_MAX : PARTS_MAX;
  const asked = config.max_batch_size ?? Math.min(BATCH_SIZE_DEFAULT, limit);
  if (!Number.isSafeInteger(asked) || asked < 1 || asked > BATCH_SIZE_MAX)
    fail(`max_batch_size: 1 to ${BATCH_SIZE_MAX}`);
  if (asked > limit && limit > 1)
    fail(`max_batch_size: at most ${limit} where lengths can't be mixed, since each may need a run of its own`);
  if (asked > limit) {
    const culprit = (unbatched ?? fixed)?.name ?? "";
    fail(
      `max_batch_size: '${culprit}' has no variable batch axis, so it must be 1; export the model with a dynamic batch axis to batch it`,
    );
  }
  return asked;
}

function sloOf(given: string | number | undefined, fail: Fail): Micros {
  if (given === undefined)
    return fail("slo: give one, as `slo: 30ms` in its config.yaml or with --slo 30ms of `tutti load`");
  const slo = parseDuration(String(given));
  if (slo === undefined || slo <= 0 || slo > SLO_US_MAX)
    return fail(`slo: '${given}' is no duration above zero and up to ${SLO_US_MAX / 6e7} min (SLO_US_MAX)`);
  return slo;
}

/** Least run deadline, µs. A shorter delay is no hang: it can be a scheduler's time slice or a page fault. */
const RUN_DEADLINE_MIN = 10_000;

function runDeadlineOf(given: string | number, fail: Fail): Micros {
  const deadline = parseDuration(String(given));
  if (deadline !== undefined && deadline >= RUN_DEADLINE_MIN && deadline <= SLO_US_MAX) return deadline;
  return fail(`run_deadline: '${given}' is no duration from ${RUN_DEADLINE_MIN / 1e3} ms to ${SLO_US_MAX / 1e6} s`);
}

function scaleToZeroOf(given: NonNullable<ModelConfig["scale_to_zero"]>, fail: Fail): ScaleToZero {
  const [idle, coldStart] = [parseDuration(String(given.idle)), parseDuration(String(given.cold_start))];
  if (idle === undefined || idle < IDLE_LEAST)
    return fail(`scale_to_zero.idle: '${given.idle}' is no duration from ${IDLE_LEAST / 1e6} s`);
  if (coldStart === undefined || coldStart <= 0 || coldStart > SLO_US_MAX)
    return fail(
      `scale_to_zero.cold_start: '${given.cold_start}' is no duration above zero and up to ${SLO_US_MAX / 1e6} s`,
    );
  return { idle, coldStart };
}

const memoryOf = (given: string | number, fail: Fail): number =>
  parseBytes(String(given)) ?? fail(`memory: '${given}' is no size, such as 512MB`);

function sharesOf(
  { shares, priority_floor: floor }: ModelConfig,
  fail: Fail,
): Pick<ModelSpec, "shares" | "priorityFloor"> {
  const problem = shares === undefined ? undefined : sharesProblem(shares);
  if (problem !== undefined) fail(`shares: ${problem}`);
  if (floor !== undefined && !(floor >= 0 && floor <= 1)) fail("priority_floor: 0 to 1");
  return { ...(shares !== undefined && { shares }), ...(floor !== undefined && { priorityFloor: floor }) };
}

function patienceOf(given: number | undefined, fail: Fail): number {
  const patience = given ?? 1;
  return patience >= 0 && patience <= 1 ? patience : fail("patience: 0 (eager) to 1 (full deferral)");
}
