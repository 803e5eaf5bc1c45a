/** Greedy CTC that keeps the position of each character, which reveals spaces that were overlooked. */

export interface Character {
  readonly text: string;
  readonly probability: number;
  /** The middle of the step that it was read at, in steps. */
  readonly at: number;
}

/**
 * The likeliest class of each step, repeats merged, blanks (class 0) left out. A repeated step counts once, at the step
 * with its highest probability.
 *
 * @param probabilities - [steps, classes], row by row
 * @param keys - class 1 + i is keys[i]
 */
export function readCharacters(probabilities: Float32Array, keys: readonly string[]): Character[] {
  const classes = keys.length + 1;
  const characters: Character[] = [];
  let previous = 0;
  for (let start = 0; start + classes <= probabilities.length; start += classes) {
    let best = 0;
    for (let i = 1; i < classes; i++)
      if ((probabilities[start + i] as number) > (probabilities[start + best] as number)) best = i;
    const probability = probabilities[start + best] as number;
    const at = start / classes + 0.5;
    if (best !== 0 && best !== previous) characters.push({ text: keys[best - 1] as string, probability, at });
    else if (best !== 0 && probability > (characters.at(-1) as Character).probability)
      characters[characters.length - 1] = { text: keys[best - 1] as string, probability, at };
    previous = best;
  }
  return characters;
}
