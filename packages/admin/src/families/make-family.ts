/**
 * Makes one model that serves several models that begin alike, and checks it against each of them (docs/families.md).
 */
import type { DesiredModel } from "@tutti/client/registries";
import { type Engine, type EngineBatch, gatherRows } from "@tutti/ports/engine";
import { constantTensors, openTrial, randomBatch, startOnnxEngine } from "@tutti/engine-onnx";
import { Family, type FamilySplit, sha256Of } from "@tutti/onnx-tools";
import type { BatchLatency } from "@tutti/planning";
import { LatencyTable } from "@tutti/profile";
import { BATCH_AXIS, type ModelSpec, fedInputs } from "@tutti/protocol";
import { type Micros, micros } from "@tutti/units";
import { FAMILY_DIFFERENCE, asVariant, familyDifference, ranOn } from "./equal-outputs.ts";
import { type FamilyProfit, familyProfit } from "./family-profit.ts";
import { type FamilyFile, type FamilyMember, familyFile, familySpec, mismatchOf } from "./family-spec.ts";
import { rowAxes } from "./row-axes.ts";

export interface MadeFamily {
  readonly model: DesiredModel;
  /** The family's file: the prefix, then the suffixes. */
  readonly bytes: Uint8Array;
  /** Difference between the family and its models, on random inputs. */
  readonly difference: number;
  readonly profit: FamilyProfit;
}

export interface MakeOptions {
  readonly name: string;
  readonly members: readonly FamilyMember[];
  /** Requests per second of each member, where they are known. */
  readonly rates?: readonly number[];
}

/** The reason why these models are not served together, for people. */
export class FamilyRefusal extends Error {
  override readonly name = "FamilyRefusal";
}

/**
 * Most attempts to cut. Each time a value turns out to be uncuttable the cut moves back; models that need more attempts
 * are no family.
 */
const ATTEMPTS = 8;

/**
 * @throws {FamilyRefusal} they can't share batches, have nothing in common, or would answer otherwise
 * @throws {ModelFileError} one of them is no model
 */
export async function makeFamily({ name, members, rates }: MakeOptions): Promise<MadeFamily> {
  const isMembers = members.some(({ model }) => model.name === name);
  const mismatch = isMembers ? `${name} is the name of one of its models` : mismatchOf(members);
  if (mismatch !== undefined) throw new FamilyRefusal(mismatch);
  const { split, axes } = await cutWell(members);
  const file = familyFile(split);
  const model = familySpec({ name, members, split, file, axes, sha256: sha256Of });
  const engine = await startOnnxEngine();
  try {
    const spec = await loadAll(engine, { model, file, members });
    const difference = await familyDifference(engine, spec, 1).catch((cause: unknown) => {
      throw new FamilyRefusal(`the family can't be tried on random inputs: ${(cause as Error).message}`, { cause });
    });
    if (!(difference <= FAMILY_DIFFERENCE)) {
      const text = `its outputs are ${difference.toPrecision(2)} away from those of its models (at most ${FAMILY_DIFFERENCE})`;
      throw new FamilyRefusal(text);
    }
    const { separate, family } = await measure(engine, spec);
    const profit = familyProfit({
      ...{ separate, family, slos: members.map((member) => member.model.slo / 1000) },
      bytes: { separate: members.reduce((sum, { bytes }) => sum + bytes.byteLength, 0), family: file.bytes.byteLength },
      ...(rates !== undefined && { rates }),
    });
    return { model, bytes: file.bytes, difference, profit };
  } finally {
    await new Promise<void>((stopped) => engine.stop(stopped));
  }
}

/** Finds the longest prefix whose values can be handed over row by row. */
async function cutWell(
  members: readonly FamilyMember[],
): Promise<{ readonly split: FamilySplit; readonly axes: ReadonlyMap<string, number> }> {
  const [first] = members as readonly [FamilyMember];
  const family = new Family(members.map(({ bytes }) => bytes));
  const uncuttable = new Set<string>();
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const split = family.split({ uncuttable });
    if (typeof split === "string") throw new FamilyRefusal(split);
    if (first.model.batchSizeMax < 2) throw new FamilyRefusal("they run one request at a time, so nothing is batched");
    const found = await tryPrefix(first.model, split).catch((cause: unknown) => {
      throw new FamilyRefusal(`what they have in common can't run by itself: ${(cause as Error).message}`, { cause });
    });
    if (found.uncuttable.length === 0) return { split, axes: found.axes };
    for (const value of found.uncuttable) uncuttable.add(value);
  }
  throw new FamilyRefusal("the rows of what they have in common can't be told apart");
}

async function tryPrefix(model: DesiredModel, split: FamilySplit): ReturnType<typeof rowAxes> {
  const trial = await openTrial(split.prefix.bytes);
  try {
    const spec: ModelSpec = { ...model, number: 0, version: "1" };
    const rows = Math.min(3, model.batchSizeMax);
    const { inputs } = randomBatch(spec, { bucket: 0, batchSize: rows, seed: 1 });
    const fed = fedInputs(spec);
    return await rowAxes(async (picked) => {
      const own = inputs.map((input, i) => {
        const axis = fed[i]!.dims.indexOf(BATCH_AXIS);
        return axis < 0 ? input : gatherRows(input, axis, picked);
      });
      const outputs = await trial.run([...own, ...constantTensors(spec)]);
      return split.prefix.cut.map((name) => outputs.find((output) => output.name === name)!);
    }, rows);
  } finally {
    await trial.release();
  }
}

/** Loads the family under its name, and each model under its own. */
async function loadAll(
  engine: Engine,
  {
    model,
    file,
    members,
  }: { readonly model: DesiredModel; readonly file: FamilyFile; readonly members: readonly FamilyMember[] },
): Promise<ModelSpec> {
  const load = (one: DesiredModel, bytes: Uint8Array): Promise<ModelSpec> =>
    new Promise((resolve, reject) => {
      const { byteLength } = bytes;
      const stored = { object: one.name, sha256: sha256Of(bytes), bytes: byteLength };
      const spec: ModelSpec = { ...one, number: 0, version: "1", file: stored };
      engine.load({ spec, bytes }, (outcome) =>
        outcome.kind === "loaded" ? resolve(spec) : reject(new FamilyRefusal(outcome.reason)),
      );
    });
  for (const { model: one, bytes } of members) await load(one, bytes);
  return load(model, file.bytes);
}

/** Runs of each batch size. The quickest counts, since other work on the machine only ever slows a run. */
const RUNS = 5;
const SIZE_MOST = 32;
/** Time limit of the measurement, µs: a slow model is measured less. */
const BUDGET_US = 400_000;

async function measure(
  engine: Engine,
  family: ModelSpec,
): Promise<{ readonly separate: readonly BatchLatency[]; readonly family: BatchLatency }> {
  const sizes: number[] = [];
  for (let size = 1; size <= Math.min(SIZE_MOST, family.batchSizeMax); size *= 2) sizes.push(size);
  const tableOf = async (batchOf: (size: number) => EngineBatch): Promise<BatchLatency> => {
    const points: { batchSize: number; latency: Micros }[] = [];
    for (const batchSize of sizes) {
      let least = Infinity;
      for (let run = 0, spent = 0; run <= RUNS && (run < 2 || spent < BUDGET_US); run++) {
        const { run: took } = await ranOn(engine, batchOf(batchSize));
        spent += took;
        if (run > 0) least = Math.min(least, took); // the first of a shape takes longer
      }
      points.push({ batchSize, latency: micros(Math.max(1, least)) });
    }
    const table = LatencyTable.fromPoints(points);
    const batchSizes = Array.from({ length: table.batchSizeMax }, (_, i) => i + 1);
    return { batchSizes, latency: (b) => (table.byBatchSize[Math.ceil(b)] ?? Infinity) / 1000 };
  };
  const random = (batchSize: number): EngineBatch => randomBatch(family, { bucket: 0, batchSize, seed: batchSize });
  const separate: BatchLatency[] = [];
  for (const { name } of family.family!.variants) separate.push(await tableOf((size) => asVariant(random(size), name)));
  return { separate, family: await tableOf(random) };
}
