import { type PipelineSpec, parsePipeline } from "@tutti/pipelines";
import type { Tensors } from "@tutti/ports/steps";

/** One number, as virtual models take and give it. */
export const scalar = (value: number, name = "x"): Tensors => ({
  [name]: { type: "FP32", dims: [1, 1], data: Float32Array.of(value) },
});

interface FindAndRead {
  readonly name: string;
  readonly slo: string;
  /** Models of the two stages, and the functions that make their requests. */
  readonly models: readonly [find: string, read: string];
  readonly before: readonly [find: string, read: string];
  readonly finish: string;
  /** More stages beside `read`, as declared. */
  readonly more?: readonly object[];
}

/** A pipeline of a stage `find` and one `read` behind it, declared as in a file. */
export function findAndRead({ name, slo, models, before, finish, more = [] }: FindAndRead): PipelineSpec {
  const stages = [
    { name: "find", model: models[0], before: before[0] },
    { name: "read", model: models[1], after: ["find"], before: before[1] },
    ...more,
  ];
  return parsePipeline({ name, slo, stages, finish }, `${name}.yaml`);
}
