import { isName } from "./limits.ts";

/**
 * Name of an executor type: `onnx-cpu`, `onnx-cuda-h200`, and `onnx-cuda-h200-50` on half of one.
 *
 * @param accelerator - tells accelerators of unlike speed apart that the engine alone doesn't
 * @param part - percentage of the accelerator that it has
 */
export const executorType = (
  engine: string,
  { accelerator, part }: { readonly accelerator?: string | undefined; readonly part: number },
): string => [engine, ...(accelerator === undefined ? [] : [accelerator]), ...(part === 100 ? [] : [part])].join("-");

/** A type of parts of accelerators, such as `onnx-cpu-50`. */
export const isPartType = (type: string): boolean => NUMBER_LAST.test(type);

/** A name whose last word is a number would read as a part. */
export const isAcceleratorName = (text: string): boolean => isName(text) && !NUMBER_LAST.test(`-${text}`);

const NUMBER_LAST = /-\d+$/;
