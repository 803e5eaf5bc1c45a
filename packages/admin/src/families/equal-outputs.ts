/** Compares a family's answers with those of its models one by one. Both are run, on the engine that serves. */
import { type Engine, type EngineBatch, type RunOutcome, gatherRows } from "@tutti/ports/engine";
import { randomBatch, relativeDifference } from "@tutti/engine-onnx";
import { BATCH_AXIS, type ModelSpec, VARIANT_INPUT, fedInputs, variantView } from "@tutti/protocol";

/** Largest difference of a family, as a fraction of an output's largest value; beyond it, the family is refused. */
export const FAMILY_DIFFERENCE = 1e-5;

type Ran = Extract<RunOutcome, { kind: "ran" }>;

export const ranOn = (engine: Engine, batch: EngineBatch): Promise<Ran> =>
  new Promise((resolve, reject) =>
    engine.run(batch, (outcome) =>
      outcome.kind === "ran" && outcome.failedRows.length === 0
        ? resolve(outcome)
        : reject(new Error(outcome.kind === "ran" ? outcome.failedRows[0]!.reason : outcome.reason)),
    ),
  );

/** A batch of the family in the form for one of its variants. */
export function asVariant(batch: EngineBatch, model: string): EngineBatch {
  const inputs = batch.inputs.filter(({ name }) => name !== VARIANT_INPUT);
  return { ...batch, model, inputs: inputs.map((input) => ({ ...input, data: input.data.slice() })) };
}

/**
 * The largest difference between each variant's answers in a mixed batch and its own model's. Inputs are random, in
 * every bucket.
 *
 * @param engine - on which the family and each of its models, under the names of the variants, are loaded
 * @throws where either can't run
 */
export async function familyDifference(engine: Engine, family: ModelSpec, seed: number): Promise<number> {
  const count = family.family!.variants.length;
  let worst = 0;
  for (const bucket of family.buckets.keys()) {
    const rows = Math.min(family.batchSizeMax, bucket === 0 ? 2 * count : count);
    for (const [round, first] of starts(count, rows).entries()) {
      const batch = randomBatch(family, { bucket, batchSize: rows, seed: seed + round });
      turn(batch, first, count);
      const plain = asVariant(batch, "");
      const { groups = [] } = await ranOn(engine, batch);
      for (const { variant, rows: own, outputs } of groups) {
        const view = variantView(family, variant);
        const inputs = plain.inputs.map((input, i) => {
          const axis = fedInputs(view)[i]!.dims.indexOf(BATCH_AXIS);
          const picked = axis < 0 ? input : gatherRows(input, axis, own);
          return { ...picked, data: picked.data.slice() };
        });
        const alone = await ranOn(engine, { ...plain, model: view.name, batchSize: own.length, inputs });
        worst = Math.max(worst, relativeDifference(alone.outputs, outputs));
      }
    }
  }
  return worst;
}

/** The first variant of each round. All have their turn even if a batch has fewer rows than there are variants. */
const starts = (count: number, rows: number): number[] =>
  Array.from({ length: Math.max(1, Math.ceil(count / rows)) }, (_, round) => (round * rows) % count);

function turn({ inputs }: EngineBatch, first: number, count: number): void {
  const { data } = inputs.find(({ name }) => name === VARIANT_INPUT)!;
  for (let row = 0; 2 * row < data.byteLength; row++) {
    const variant = (first + row) % count;
    data[2 * row] = variant & 255;
    data[2 * row + 1] = variant >> 8;
  }
}
