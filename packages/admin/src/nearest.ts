/** ` (did you mean "executor"?)`, or an empty text if no choice is similar. */
export function didYouMean(typed: string, choices: readonly string[]): string {
  const near = nearest(typed, choices);
  return near === undefined ? "" : ` (did you mean "${near}"?)`;
}

/** The choice with the fewest changes from `typed`, if these are at most a third of its letters. */
export function nearest(typed: string, choices: readonly string[]): string | undefined {
  let best: string | undefined;
  let least = Infinity;
  for (const choice of choices) {
    const changes = changesBetween(typed.slice(0, WORD_LENGTH).toLowerCase(), choice.toLowerCase());
    if (changes < least && changes <= Math.max(1, Math.ceil(choice.length / 3))) [best, least] = [choice, changes];
  }
  return best;
}

/** Limit on the compared length: no command is longer, and the work grows with the square. */
const WORD_LENGTH = 40;

/** Letters added, left out, replaced, or swapped with their neighbour (optimal string alignment). */
export function changesBetween(from: string, to: string): number {
  let [before, last] = [[] as number[], Array.from({ length: to.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= from.length; i++) {
    const row = [i];
    for (let j = 1; j <= to.length; j++) {
      const same = from[i - 1] === to[j - 1] ? 0 : 1;
      let changes = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + same);
      if (i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1])
        changes = Math.min(changes, before[j - 2]! + 1);
      row.push(changes);
    }
    [before, last] = [last, row];
  }
  return last[to.length]!;
}
