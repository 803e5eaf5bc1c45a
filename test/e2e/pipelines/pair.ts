import type { StageRequestsKept, StepInput, Tensors } from "@tutti/ports/steps";

const four = (name: string, values: ArrayLike<number>): Tensors => ({
  [name]: { type: "FP32", dims: [1, 4], data: Float32Array.from(values) },
});
const numbers = (tensors: Tensors | undefined, name: string): number[] =>
  Array.from((tensors?.[name]?.data ?? []) as Float32Array);

export function toOnce({ input }: StepInput): StageRequestsKept {
  const values = numbers(input, "x");
  if (values.length !== 4)
    throw Object.assign(new Error(`x has ${values.length} numbers, four are due`), { code: "TUTTI_INVALID_INPUT" });
  return { requests: four("x", values), keep: { copies: values[0] } };
}

export function toAgain({ stages, kept }: StepInput): Tensors[] {
  const { copies } = kept["once"] as { copies: number };
  if (copies < 0) throw new Error("fewer than none can't be made");
  return Array.from({ length: copies }, () => four("x", numbers(stages["once"]?.[0], "y")));
}

export async function toSum({ stages }: StepInput): Promise<Tensors> {
  const sums = [0, 0, 0, 0];
  for (const outputs of stages["again"] ?? [])
    for (const [i, value] of numbers(outputs, "y").entries()) sums[i] = (sums[i] ?? 0) + value;
  return Promise.resolve(four("sum", sums));
}
