import { type Tensor, TuttiError } from "@tutti/protocol";
import { floatsOf } from "./tensor-values.ts";

export interface ReadText {
  readonly text: string;
  /** Mean probability of the characters kept, 0 where there are none. */
  readonly confidence: number;
}

/** The characters of a key file, one a line; the space, which such files leave out, comes last. */
export function parseKeys(file: string): string[] {
  const lines = file.split(/\r?\n/);
  if (lines.at(-1) === "") lines.pop();
  return [...lines, " "];
}

/**
 * Greedy CTC: the likeliest class of each step, repeats merged, blanks (class 0) left out.
 *
 * @param output - f32[1, steps, classes], each step summing to 1
 * @param keys - class 1 + i is keys[i] (see `parseKeys`)
 * @throws {TuttiError} INVALID_INPUT when the keys don't belong to the model
 */
export function decodeCtc(output: Tensor, keys: readonly string[]): ReadText {
  const [, steps = 0, classes = 0] = output.dims;
  if (output.dims.length !== 3 || classes !== keys.length + 1) {
    const text = `an output [${output.dims.join(", ")}] and ${keys.length} keys don't belong together: ${keys.length + 1} classes are expected`;
    throw new TuttiError("TUTTI_INVALID_INPUT", text, { retryable: false });
  }
  const probabilities = floatsOf(output);
  let text = "";
  let sum = 0;
  let kept = 0;
  let previous = 0;
  for (let step = 0; step < steps; step++) {
    let best = 0;
    const start = step * classes;
    for (let i = 1; i < classes; i++) {
      if ((probabilities[start + i] as number) > (probabilities[start + best] as number)) best = i;
    }
    if (best !== 0 && best !== previous) {
      text += keys[best - 1] as string;
      sum += probabilities[start + best] as number;
      kept++;
    }
    previous = best;
  }
  text = text.trim(); // the margins of a crop are read as spaces
  return { text, confidence: kept === 0 ? 0 : sum / kept };
}
