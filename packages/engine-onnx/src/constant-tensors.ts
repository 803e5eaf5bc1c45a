import type { ModelSpec, Tensor } from "@tutti/protocol";
import { bytesFrom } from "./tensor-types.ts";

/** Tensors for the inputs that are the same for every request. */
export const constantTensors = ({ constants }: Pick<ModelSpec, "constants">): Tensor[] =>
  constants.map(({ name, type, dims, values }) => ({ name, type, dims, data: bytesFrom(type, values) }));
