/**
 * Whether rows influence each other. A mean or a softmax over the batch axis computes a row's answer from its
 * neighbours, which are other publishers', and nothing fails.
 */
import { BATCH_AXIS, type ModelSpec, type Tensor, elementCount } from "@tutti/protocol";
import { type Micros, millis } from "@tutti/units";
import type { Run } from "./check-budget.ts";
import { relativeDifference } from "./comparison.ts";
import { bufferOf } from "./file-buffer.ts";
import { since } from "./load-refusal.ts";
import { hasLoop } from "./may-take-long.ts";
import { corner } from "./padding-check.ts";
import { type Provider, differenceMax } from "./provider.ts";
import { roundingOf } from "./rounding.ts";
import { type Row, type RowSource, type Rows, beside, rowOf, rowSources } from "./row-pairs.ts";
import { valuesOf } from "./tensor-types.ts";

/** Pairs of rows that must all differ: a near tie or a value around zero is unlike in one, and not in each. */
const PAIRS = 3;
/** Slower rows aren't tried: all runs together stay within the deadline of a load. */
const SLOW: Micros = millis(500);

/**
 * Share of integers that may be unlike, over that of floats: the indexes of values so close that rounding swaps them.
 */
const INTEGERS_TIMES = 10;

/** `training_mode: 1`, an attribute of batch normalizations alone. */
const TRAINING = Buffer.from("\x0a\x0dtraining_mode\x18\x01", "latin1");

export interface TriedModel {
  readonly spec: ModelSpec;
  readonly bytes: Uint8Array;
  readonly provider: Provider;
  /** Models that are tried in the same load, and share its time: the variants of a family. Default: 1. */
  readonly among?: number;
  /** Real rows, if the model came with some. */
  readonly samples?: readonly Row[];
}

/**
 * Runs two unlike rows each by itself, and together. A difference is an influence if another neighbour makes another
 * one, or if it is there with rows of a second kind too: where rows of one kind are nearly alike to a model, it may
 * amplify rounding to any size.
 *
 * A model that takes one row at a time isn't tried, nor one with a Loop, whose runs may not end, nor one whose
 * publisher vouches for it; nor is one judged that answers the same row in two ways, since it samples. So does a batch
 * normalization in training mode, of which onnxruntime changes the weights in each run; that is found in the file.
 *
 * @returns why rows of this model must not share a run; undefined: they may, or it can't run the rows
 */
export async function rowInfluence(model: TriedModel, run: Run): Promise<string | undefined> {
  const { spec, bytes } = model;
  if (bufferOf(bytes).includes(TRAINING))
    return (
      "a batch normalization is in training mode, so an answer depends on the requests beside it and before it. " +
      "Export the model for inference (`model.eval()` in PyTorch)"
    );
  if (spec.batchSizeMax < 2 || spec.independentRows === true || hasLoop(bytes)) return undefined;
  const trial = new Trial(model, run);
  let found: Influence | undefined;
  for (const source of rowSources(spec, model.provider, model.samples)) {
    const influence = await trial.influenceAmong(source);
    if (influence === "not run") continue;
    if (influence === undefined) return undefined;
    const isConfirmed = found !== undefined || influence.ofNeighbour;
    found ??= influence;
    if (isConfirmed) break;
  }
  if (found === undefined) return undefined;
  const by = Number.isFinite(found.by) ? `by ${shareOf(found.by)} its largest value` : "in what is a number";
  return (
    `rows of a batch influence each other: output '${found.output}' of a row differs ${by} from what the row gets by itself, ` +
    "so one publisher's answer would depend on another's request (a mean or a softmax over the batch axis does that). " +
    "Export the model without it, or write in config.yaml `max_batch_size: 1` (each request runs by itself) or, " +
    "if you know better, `independent_rows: true` (rows aren't tried)"
  );
}

/** An output whose values by itself are all 0 has no share that would mean anything. */
const shareOf = (by: number): string => (by > 1 ? "more than" : `${by.toPrecision(2)} of`);

interface Pair {
  readonly rows: Rows;
  /** Outputs of each row by itself. */
  readonly alone: readonly (readonly Tensor[])[];
  readonly together: readonly Tensor[];
}

/** Runs pairs of rows. A run that fails is reported by whoever measures the model, and says nothing here. */
class Trial {
  readonly #spec: ModelSpec;
  readonly #bytes: Uint8Array;
  readonly #run: Run;
  readonly #slow: number;
  #most: number;
  #isRoundingKnown = false;

  constructor({ spec, bytes, provider, among = 1 }: TriedModel, run: Run) {
    this.#spec = spec;
    this.#bytes = bytes;
    this.#run = run;
    this.#slow = SLOW / among;
    this.#most = differenceMax(provider);
  }

  /** @returns undefined: in one pair of rows at least there is none, or the model is too slow to be tried */
  async influenceAmong(source: RowSource): Promise<(Influence & { ofNeighbour: boolean }) | "not run" | undefined> {
    let found: Influence | undefined;
    let tried: Pair | "not run" | undefined;
    for (let pair = 0; pair < PAIRS; pair++) {
      const rows = source(pair);
      if (rows === undefined) return "not run";
      tried = await this.#outputsOf(rows).catch(() => "not run" as const);
      if (tried === undefined || tried === "not run") return tried;
      found = influenceIn(this.#spec, tried, this.#most);
      if (found !== undefined && !this.#isRoundingKnown) {
        this.#isRoundingKnown = true;
        this.#most = roundingOf(this.#spec, this.#bytes, this.#most); // only now: it reads the whole file
        found = influenceIn(this.#spec, tried, this.#most);
      }
      if (found === undefined || (await this.#isRandom(tried))) return undefined;
    }
    return { ...found!, ofNeighbour: await this.#dependsOnNeighbour(tried as Pair) };
  }

  /** @returns undefined: the model is too slow to be tried */
  async #outputsOf(rows: Rows): Promise<Pair | undefined> {
    const first = await this.#run(rows[0], 1);
    const start = process.hrtime.bigint(); // of the second: the first run of a shape takes longer
    const second = await this.#run(rows[1], 1);
    if (since(start) > this.#slow) return undefined;
    return { rows, alone: [first, second], together: await this.#run(beside(this.#spec, rows[0], rows[1]), 2) };
  }

  /** Whether a row gets another answer beside another row: rounding in a run of two rows is the same for both. */
  async #dependsOnNeighbour({ rows: [first, , third], together }: Pair): Promise<boolean> {
    const other = await this.#run(beside(this.#spec, first, third), 2).catch(() => undefined);
    if (other === undefined) return false;
    return this.#spec.outputs.some(({ dims }, i) => {
      const axis = dims.indexOf(BATCH_AXIS);
      const [one, another] = shared(rowOf(together[i]!, axis, 0), rowOf(other[i]!, axis, 0));
      return differenceOf(one, another, this.#most) > 0;
    });
  }

  /** Whether a row by itself gets another answer the next time, or none. */
  async #isRandom({ rows, alone }: Pair): Promise<boolean> {
    const again = await this.#run(rows[0], 1).catch(() => undefined);
    if (again === undefined) return true;
    return this.#spec.outputs.some((_, i) => {
      const [one, other] = shared(alone[0]![i]!, again[i]!);
      return differenceOf(one, other, this.#most) > 0;
    });
  }
}

interface Influence {
  readonly output: string;
  readonly by: number;
}

/** The first output of which a row gets more than rounding changes; those without a batch axis are each row's. */
function influenceIn(spec: ModelSpec, { alone, together }: Pair, most: number): Influence | undefined {
  for (const [i, { name, dims }] of spec.outputs.entries()) {
    const both = together[i]!;
    const axis = dims.indexOf(BATCH_AXIS);
    const hasRank = ({ dims: found }: Tensor): boolean => found.length === dims.length;
    if (![both, ...alone.map((outputs) => outputs[i]!)].every(hasRank) || (axis >= 0 && both.dims[axis] !== 2))
      return undefined; // a run fails by it
    const pairs = alone.map((outputs, row) => shared(outputs[i]!, rowOf(both, axis, row)));
    const by = differenceOf(joined(pairs.map(([own]) => own)), joined(pairs.map(([, beside]) => beside)), most);
    if (by > 0) return { output: name, by };
  }
  return undefined;
}

/** The common part of two outputs: where a run determines their length, one may be as long as its neighbour needs. */
function shared(a: Tensor, b: Tensor): [Tensor, Tensor] {
  if (String(a.dims) === String(b.dims)) return [a, b];
  const dims = a.dims.map((size, axis) => Math.min(size, b.dims[axis]!));
  return [corner(a, dims), corner(b, dims)];
}

/** The elements of both rows, so that their scale is that of both. */
function joined(rows: readonly Tensor[]): Tensor {
  const data = new Uint8Array(Buffer.concat(rows.map((row) => row.data)));
  return { ...rows[0]!, dims: [rows.reduce((count, { dims }) => count + elementCount(dims), 0)], data };
}

const NUMBERS = new Set(["FP16", "FP32", "FP64", "INT8", "UINT8"]);

/** @returns 0: no more than `most`, the share of the largest value that rounding may change */
function differenceOf(expected: Tensor, actual: Tensor, most: number): number {
  const difference = relativeDifference([expected], [actual]);
  if (difference === 0) return 0;
  // Bytes are quantized numbers or pixels, where one rounding is a step of 1/255, or else indexes like wider integers.
  if (NUMBERS.has(expected.type) && difference <= (expected.type.startsWith("FP") ? most : Math.max(most, 1e-2)))
    return 0;
  if (expected.type.startsWith("FP")) return difference;
  const [own, beside] = [valuesOf(expected), valuesOf(actual)];
  let unlike = 0;
  for (let at = 0; at < own.length; at++) if (own[at] !== beside[at]) unlike++;
  return unlike <= INTEGERS_TIMES * most * own.length ? 0 : difference;
}
