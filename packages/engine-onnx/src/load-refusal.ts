/** What models and families have in common when they are loaded. */
import { createHash } from "node:crypto";
import { externalDataProblem } from "@tutti/ports/engine";
import type { ModelSpec } from "@tutti/protocol";
import { type Micros, micros } from "@tutti/units";
import type ort from "onnxruntime-node";
import { constantTensors } from "./constant-tensors.ts";
import { toOrt } from "./tensor-types.ts";

/** Why a model can't be loaded, in words for the one who asked for it. */
export class LoadRefusal extends Error {
  override readonly name = "LoadRefusal";
}

/** A flipped byte in the weights loads in silence. @throws {LoadRefusal} */
export function checkSha256({ file }: ModelSpec, bytes: Uint8Array): void {
  const found = createHash("sha256").update(bytes).digest("hex");
  if (found === file?.sha256) return;
  const expected = file?.sha256 ?? "none: the spec has no file";
  throw new LoadRefusal(`the file has sha256 ${found}, the spec ${expected}: load the model again`);
}

/**
 * Whoever can write models into the store could otherwise read this process's files and memory. @throws {LoadRefusal}
 */
export function checkSelfContained(bytes: Uint8Array): void {
  const problem = externalDataProblem(bytes);
  if (problem !== undefined) throw new LoadRefusal(problem);
}

/** Inputs that are the same for every request. */
export const constantsOf = (spec: ModelSpec): Record<string, ort.Tensor> =>
  Object.fromEntries(constantTensors(spec).map((tensor) => [tensor.name, toOrt(tensor)]));

export const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Rounded up: a latency that is rounded down makes a deadline that can't be met look possible. */
export const since = (start: bigint): Micros => micros(Number((process.hrtime.bigint() - start + 999n) / 1000n));
