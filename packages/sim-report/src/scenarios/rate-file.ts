/**
 * Rates over time: CSV with a head `from_s,ModelA,ModelB,…`. Each line gives the models' rates, in requests per second,
 * from its time on; lines that begin with # are comments.
 */
import { CommandError } from "@tutti/admin";

export interface RateStep {
  readonly fromS: number;
  /** In the order of the requested models. */
  readonly rates: readonly number[];
}

const STEPS_MAX = 10_000;
const RATE_HIGHEST = 1e8;

/**
 * @param models - names that the head must have, each once and no others, in any order
 * @throws {CommandError} naming the file and the line
 */
export function parseRates(text: string, origin: string, models: readonly string[]): readonly RateStep[] {
  const steps: RateStep[] = [];
  let columns: readonly number[] | undefined;
  for (const [i, line] of text.split(/\r?\n/).entries()) {
    if (line.trim() === "" || line.startsWith("#")) continue;
    const at = `${origin}:${i + 1}`;
    const cells = line.split(",").map((cell) => cell.trim());
    if (columns === undefined) {
      columns = columnsOf(cells, models, at);
      continue;
    }
    if (steps.length === STEPS_MAX) throw new CommandError(`${at}: over ${STEPS_MAX} lines of rates`);
    steps.push(stepOf(cells, columns, at, steps.at(-1)?.fromS));
  }
  if (steps.length === 0) throw new CommandError(`${origin} has no rates; give a head and a line such as 0,100,50`);
  if (steps.every(({ rates }) => rates.every((rate) => rate === 0)))
    throw new CommandError(`${origin} has only rates of 0`);
  return steps;
}

/** The column of each model. */
function columnsOf([first, ...names]: readonly string[], models: readonly string[], at: string): readonly number[] {
  if (first !== "from_s") throw new CommandError(`${at}: the head begins with from_s, then names of models`);
  const unknown = names.find((name) => !models.includes(name));
  if (unknown !== undefined) throw new CommandError(`${at}: the scenario has no model "${unknown}"`);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw new CommandError(`${at}: "${twice}" has two columns`);
  const missing = models.find((name) => !names.includes(name));
  if (missing !== undefined) throw new CommandError(`${at}: "${missing}" has no column; give 0 where no request comes`);
  return models.map((name) => names.indexOf(name) + 1);
}

function stepOf(
  cells: readonly string[],
  columns: readonly number[],
  at: string,
  before: number | undefined,
): RateStep {
  if (cells.length !== columns.length + 1) {
    throw new CommandError(`${at}: ${cells.length} values for ${columns.length + 1} columns`);
  }
  const values = cells.map((cell) => (cell === "" ? NaN : Number(cell)));
  const wrong = values.findIndex((value) => !(value >= 0 && value <= RATE_HIGHEST));
  if (wrong >= 0) throw new CommandError(`${at}: ${JSON.stringify(cells[wrong])} is no rate; give a number from 0 on`);
  const fromS = values[0]!;
  if (before !== undefined && fromS <= before) {
    throw new CommandError(`${at}: ${fromS} s isn't after the line before; put lines in order of time`);
  }
  return { fromS, rates: columns.map((column) => values[column]!) };
}

/** Mean total rate of all models over `durationS`; the first step's rates also hold before it. */
export function meanRate(steps: readonly RateStep[], durationS: number): number {
  let requests = 0;
  for (const [i, { fromS, rates }] of steps.entries()) {
    const from = i === 0 ? 0 : Math.min(fromS, durationS);
    const until = Math.min(steps[i + 1]?.fromS ?? durationS, durationS);
    requests += Math.max(0, until - from) * totalOf(rates);
  }
  return requests / durationS;
}

export const totalOf = (rates: readonly number[]): number => rates.reduce((sum, rate) => sum + rate, 0);
