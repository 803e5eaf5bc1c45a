/**
 * A family in the session worker (docs/algorithms.md, C7). It runs the common prefix over the whole batch once, then
 * each variant's suffix over its rows.
 *
 *   FAMILY-1. Only faulty rows fail: a batch that can't run as a whole runs by halves, of the prefix and of each suffix
 *             apart.
 *   FAMILY-2. Every row that did not fail is in exactly one group, and a group's outputs have exactly its rows.
 */
import { type EngineBatch, type RowGroup, type RunOutcome, gatherRows, groupsOf } from "@tutti/ports/engine";
import {
  BATCH_AXIS,
  type ModelSpec,
  type PartSpec,
  type PrefixSpec,
  type SuffixSpec,
  type Tensor,
  fedInputs,
  variantView,
} from "@tutti/protocol";
import type ort from "onnxruntime-node";
import { relativeDifference } from "./comparison.ts";
import { LoadRefusal, checkSelfContained, checkSha256, constantsOf, since, textOf } from "./load-refusal.ts";
import { CheckBudget } from "./check-budget.ts";
import { paddingDifference } from "./padding-check.ts";
import { type SessionSettings, differenceMax } from "./provider.ts";
import { type Draw, randomBatch } from "./random-batch.ts";
import { roundingOf } from "./rounding.ts";
import { rowInfluence } from "./row-check.ts";
import { cutBack, filledUp } from "./run-sizes.ts";
import { Sessions } from "./sessions.ts";
import { batchProblem, outputsProblem } from "./signature.ts";
import { fromOrt, toOrt } from "./tensor-types.ts";

/** Outputs of the prefix, by name, each with the axis of its rows. */
type Cut = ReadonlyMap<string, { readonly tensor: Tensor; readonly axis: number }>;

interface Variant {
  readonly suffix: SuffixSpec;
  readonly view: ModelSpec;
  readonly sessions: Sessions;
}

export class FamilyModel {
  readonly spec: ModelSpec;
  readonly #prefix: PrefixSpec;
  readonly #prefixSessions: Sessions;
  readonly #variants: readonly Variant[];
  readonly #constants: Readonly<Record<string, ort.Tensor>>;

  private constructor(
    spec: ModelSpec,
    sessions: { readonly prefix: Sessions; readonly suffixes: readonly Sessions[] },
  ) {
    this.spec = spec;
    const { prefix, variants } = spec.family!;
    this.#prefix = prefix!;
    this.#prefixSessions = sessions.prefix;
    this.#variants = variants.map(({ suffix }, i) => ({
      suffix: suffix!,
      view: variantView(spec, i),
      sessions: sessions.suffixes[i]!,
    }));
    this.#constants = constantsOf(spec);
  }

  /**
   * Checks the file, makes a session of each part, looks whether padding or other rows change results. On another
   * provider than the CPU it compares outputs with the CPU's.
   * @throws {LoadRefusal}
   */
  static async load(options: {
    readonly spec: ModelSpec;
    readonly bytes: Uint8Array;
    readonly settings: SessionSettings;
  }): Promise<FamilyModel> {
    const { spec, bytes, settings } = options;
    checkSha256(spec, bytes);
    if (spec.family?.prefix === undefined) throw new LoadRefusal("the spec of a family says nothing of its prefix");
    const model = await FamilyModel.#create(spec, bytes, settings);
    try {
      const budget = new CheckBudget();
      await model.#checkVariants(budget, paddingDifference);
      // Before rows are compared: what a provider computes wrongly isn't the model's fault.
      if (settings.provider !== "cpu") await model.#compareWithCpu(bytes, settings);
      const tried = { bytes, provider: settings.provider, among: spec.family.variants.length };
      await model.#checkVariants(budget, (view, run) => rowInfluence({ spec: view, ...tried }, run));
    } catch (error) {
      await model.release();
      throw error;
    }
    return model;
  }

  static async #create(spec: ModelSpec, bytes: Uint8Array, settings: SessionSettings): Promise<FamilyModel> {
    const made: Sessions[] = [];
    const create = async (what: string, { offset, bytes: length }: PartSpec): Promise<Sessions> => {
      // A copy: the runtime reads words, and a part begins anywhere.
      const part = bytes.slice(offset, offset + length);
      checkSelfContained(part);
      try {
        const session = await Sessions.create({ bytes: part, settings, batchSizeMax: spec.batchSizeMax });
        made.push(session);
        return session;
      } catch (cause) {
        throw new LoadRefusal(`onnxruntime can't load ${what}: ${textOf(cause)}`, { cause });
      }
    };
    try {
      const prefix = await create("the common prefix", spec.family!.prefix!);
      const suffixes: Sessions[] = [];
      for (const [i, { name, suffix }] of spec.family!.variants.entries()) {
        const session = await create(`the part of ${name}`, suffix!);
        const problem = outputsProblem(variantView(spec, i), session.first.outputMetadata);
        if (problem !== undefined) throw new LoadRefusal(`${name}: ${problem}`);
        suffixes.push(session);
      }
      return new FamilyModel(spec, { prefix, suffixes });
    } catch (error) {
      for (const session of made) await session.release();
      throw error;
    }
  }

  async run(batch: EngineBatch): Promise<RunOutcome> {
    const problem = batchProblem(this.spec, batch);
    if (problem !== undefined) return { kind: "failed", reason: `${this.spec.name}: ${problem}`, fault: false };
    const start = process.hrtime.bigint();
    const groups: RowGroup[] = [];
    const failedRows: { row: number; reason: string }[] = [];
    const inputs = new Map(
      fedInputs(this.spec).map(({ name, dims }, i) => {
        return [name, { tensor: batch.inputs[i]!, axis: dims.indexOf(BATCH_AXIS) }] as const;
      }),
    );
    await byHalves(rowsUpTo(batch.batchSize), failedRows, async (rows) => {
      const given = new Map([...inputs].map(([name, input]) => [name, picked(input, rows)]));
      const cut = await this.#runPrefix(given, rows.length);
      for (const { variant, rows: own } of groupsOf({ inputs: [...given.values()].map(({ tensor }) => tensor) }))
        await this.#runVariant(variant, { rows, own, given, cut }, { groups, failedRows });
    });
    const [failure] = failedRows;
    if (failure !== undefined && groups.length === 0) return { kind: "failed", reason: failure.reason, fault: false };
    return { kind: "ran", run: since(start), outputs: [], groups, failedRows };
  }

  async #runPrefix(given: Cut, batchSize: number): Promise<Cut> {
    const rows = this.#prefixSessions.rowsOf(batchSize);
    const feeds = feedsOf(
      this.#prefix.inputs.map((name) => ({ from: name, to: name })),
      allFilledUp(given, rows),
      this.#constants,
    );
    const names = this.#prefix.cut.map(({ name }) => name);
    const results = await (await this.#prefixSessions.of(rows)).run(feeds, names, { logSeverityLevel: 4 });
    return new Map(
      this.#prefix.cut.map(({ name, batchAxis }) => {
        const output = fromOrt(name, results[name] as ort.Tensor);
        return [name, { tensor: cutBack(output, batchAxis, { rows, batchSize }), axis: batchAxis }] as const;
      }),
    );
  }

  /**
   * Runs one variant's rows of a part of the batch, after the prefix. @param part - `rows`: of the batch; `own`: places
   * among them
   */
  async #runVariant(
    index: number,
    part: { readonly rows: readonly number[]; readonly own: readonly number[]; readonly given: Cut; readonly cut: Cut },
    into: { readonly groups: RowGroup[]; readonly failedRows: { row: number; reason: string }[] },
  ): Promise<void> {
    const variant = this.#variants[index];
    const failed: { row: number; reason: string }[] = [];
    await byHalves(part.own, failed, async (places) => {
      if (variant === undefined) throw new Error(`the family has no variant ${index}`);
      const { suffix, sessions, view } = variant;
      const sizes = { rows: variant.sessions.rowsOf(places.length), batchSize: places.length };
      const pick = (from: Cut): Cut =>
        allFilledUp(new Map([...from].map(([name, value]) => [name, picked(value, places)])), sizes.rows);
      const given = feedsOf(
        suffix.inputs.map((name) => ({ from: name, to: name })),
        pick(part.given),
        this.#constants,
      );
      const feeds = { ...given, ...feedsOf(suffix.feeds, pick(part.cut), {}) };
      const names = view.outputs.map(({ name }) => name);
      const session = await sessions.of(sizes.rows);
      const results = await session.run(feeds, names, { logSeverityLevel: 4 });
      const outputs = view.outputs.map(({ name, dims }) =>
        cutBack(fromOrt(name, results[name] as ort.Tensor), dims.indexOf(BATCH_AXIS), sizes),
      );
      const wrong = rowProblem(view, outputs, places.length);
      if (wrong !== undefined) throw new Error(wrong);
      into.groups.push({ variant: index, rows: places.map((place) => part.rows[place]!), outputs });
    });
    for (const { row, reason } of failed) into.failedRows.push({ row: part.rows[row]!, reason });
  }

  /** Each variant by itself: the part that padding or other rows change may be its own. */
  async #checkVariants(budget: CheckBudget, problemOf: typeof paddingDifference): Promise<void> {
    for (const [index, { view }] of this.#variants.entries()) {
      const run = budget.bound((inputs, rows) => this.#outputsOf(index, inputs, rows));
      const problem = await problemOf(view, run);
      if (problem !== undefined) throw new LoadRefusal(`${view.name}: ${problem}`);
    }
  }

  /** Outputs of rows of one variant, whatever their shape. */
  async #outputsOf(index: number, inputs: readonly Tensor[], rows: number): Promise<readonly Tensor[]> {
    const given = new Map(
      fedInputs(this.#variants[index]!.view).map(({ name, dims }, i) => {
        return [name, { tensor: inputs[i]!, axis: dims.indexOf(BATCH_AXIS) }] as const;
      }),
    );
    const cut = await this.#runPrefix(given, rows);
    const groups: RowGroup[] = [];
    const failedRows: { row: number; reason: string }[] = [];
    const own = rowsUpTo(rows);
    await this.#runVariant(index, { rows: own, own, given, cut }, { groups, failedRows });
    const [group] = groups;
    if (group?.rows.length !== rows) throw new Error(failedRows[0]?.reason ?? "its rows can't share a run");
    return group.outputs;
  }

  async #compareWithCpu(bytes: Uint8Array, settings: SessionSettings): Promise<void> {
    const { provider } = settings;
    const cpu = await FamilyModel.#create(this.spec, bytes, { ...settings, provider: "cpu" });
    try {
      for (const bucket of this.spec.buckets.keys()) {
        const batchSize = Math.min(this.#variants.length, this.spec.batchSizeMax);
        const differenceOf = async (draw: Draw): Promise<number> => {
          const again = (): EngineBatch => randomBatch(this.spec, { bucket, batchSize, seed: bucket + 1, draw });
          const whole = (outcome: RunOutcome, who: string) => {
            if (outcome.kind === "ran" && (draw === "small" || outcome.failedRows.length === 0)) return outcome;
            const reason = outcome.kind === "ran" ? outcome.failedRows[0]?.reason : outcome.reason;
            throw new LoadRefusal(`${who} can't run the family on random inputs: ${reason}`);
          };
          // The CPU's first: an index outside its table fails there, and may end the process on a GPU.
          const expected = whole(await cpu.run(again()), "the CPU");
          const actual = whole(await this.run(again()), provider);
          const outputs = ({ groups = [] }: typeof expected): Tensor[] => groups.flatMap((group) => group.outputs);
          return relativeDifference(outputs(expected), outputs(actual));
        };
        let difference = await differenceOf("small");
        let most = differenceMax(provider);
        if (difference > most) most = roundingOf(this.spec, bytes, most); // only now: it reads the whole file
        // Integers of 0 and 1 may be nearly alike to a model, which then amplifies rounding.
        if (difference > most) difference = Math.min(difference, await differenceOf("text").catch(() => Infinity));
        if (difference <= most) continue;
        throw new LoadRefusal(
          `the ${provider} provider computes this family wrongly: its outputs are ${difference.toPrecision(2)} away from the CPU's ` +
            `(at most ${most}); serve it with --provider cpu`,
        );
      }
    } finally {
      await cpu.release();
    }
  }

  async release(): Promise<void> {
    await this.#prefixSessions.release();
    for (const { sessions } of this.#variants) await sessions.release();
  }
}

const rowsUpTo = (count: number): number[] => Array.from({ length: count }, (_, row) => row);

/** FAMILY-1: runs the rows at once if possible, else by halves down to the rows that fail. */
async function byHalves(
  rows: readonly number[],
  failed: { row: number; reason: string }[],
  run: (rows: readonly number[]) => Promise<void>,
): Promise<void> {
  const parts = [rows];
  for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
    try {
      await run(part);
    } catch (error) {
      const half = Math.ceil(part.length / 2);
      if (part.length === 1) failed.push({ row: part[0]!, reason: textOf(error) });
      else parts.push(part.slice(half), part.slice(0, half));
    }
  }
}

interface Value {
  readonly tensor: Tensor;
  /** −1: no axis of rows. */
  readonly axis: number;
}

const picked = ({ tensor, axis }: Value, rows: readonly number[]): Value => ({
  tensor: axis < 0 ? tensor : gatherRows(tensor, axis, rows),
  axis,
});

const allFilledUp = (values: Cut, rows: number): Cut =>
  new Map([...values].map(([name, { tensor, axis }]) => [name, { tensor: filledUp(tensor, axis, rows), axis }]));

function feedsOf(
  wanted: readonly { readonly from: string; readonly to: string }[],
  given: Cut,
  constants: Readonly<Record<string, ort.Tensor>>,
): Record<string, ort.Tensor> {
  const feeds: Record<string, ort.Tensor> = {};
  for (const { from, to } of wanted) {
    const value = given.get(from);
    const feed = value === undefined ? constants[from] : toOrt(value.tensor);
    if (feed === undefined) throw new Error(`nobody gives '${from}'`);
    feeds[to] = feed;
  }
  return feeds;
}

/** FAMILY-2: finds an output whose rows do not match. */
function rowProblem(view: ModelSpec, outputs: readonly Tensor[], rows: number): string | undefined {
  for (const [i, { name, dims }] of view.outputs.entries()) {
    const found = outputs[i]!.dims;
    const axis = dims.indexOf(BATCH_AXIS);
    if (found.length !== dims.length || (axis >= 0 && found[axis] !== rows))
      return `output '${name}' is [${found.join(", ")}] for a batch of ${rows}, and was declared [${dims.join(", ")}]`;
  }
  return undefined;
}
