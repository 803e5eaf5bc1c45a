/** Load-time checks and helpers shared by models and families. */
import { createHash } from "node:crypto";
import { externalDataProblem } from "@tutti/ports/engine";
import type { ModelSpec } from "@tutti/protocol";
import { type Micros, micros } from "@tutti/units";
import type ort from "onnxruntime-node";
import { constantTensors } from "./constant-tensors.ts";
import { toOrt } from "./tensor-types.ts";

/** Reason why a model can't be loaded, worded for its publisher. */
export class LoadRefusal extends Error {
  override readonly name = "LoadRefusal";
}

/** Checks the file's sha256: onnxruntime loads flipped bytes in the weights without an error. @throws {LoadRefusal} */
export function checkSha256({ file }: ModelSpec, bytes: Uint8Array): void {
  const found = createHash("sha256").update(bytes).digest("hex");
  if (found === file?.sha256) return;
  const expected = file?.sha256 ?? "none: the spec has no file";
  throw new LoadRefusal(`the file has sha256 ${found}, the spec ${expected}: load the model again`);
}

/**
 * Rejects external data, with which a writer of models could read this process's files and memory. @throws
 * {LoadRefusal}
 */
export function checkSelfContained(bytes: Uint8Array): void {
  const problem = externalDataProblem(bytes);
  if (problem !== undefined) throw new LoadRefusal(problem);
}

/** Tensors of the inputs that are the same for every request, by name. */
export const constantsOf = (spec: ModelSpec): Record<string, ort.Tensor> =>
  Object.fromEntries(constantTensors(spec).map((tensor) => [tensor.name, toOrt(tensor)]));

/** An error's text without the place in onnxruntime's sources that it begins with, which tells publishers nothing. */
export const textOf = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).replace(SOURCE_PLACE, "").trim();
/** `/onnxruntime_src/onnxruntime/core/graph/model.cc:202 onnxruntime::Model::Model(const T<char (&)>&, …) const ` */
const SOURCE_PLACE =
  /\/onnxruntime_src\/\S+:\d+ [^()]*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)(?: const)?(?: \[with [^\]]*\])? /;

/** Elapsed time, rounded up: a latency that is rounded down makes an infeasible deadline look possible. */
export const since = (start: bigint): Micros => micros(Number((process.hrtime.bigint() - start + 999n) / 1000n));
