/** Model zoos: CSV with a line `model,alpha_ms,beta_ms,slo_ms` for each model. Lines that begin with # are comments. */
import { CommandError } from "@tutti/admin";

export interface ZooModel {
  readonly name: string;
  readonly alphaMs: number;
  readonly betaMs: number;
  readonly sloMs: number;
}

const MODELS_MAX = 4096;

/** @throws {CommandError} naming the file and the line */
export function parseZoo(text: string, origin: string): readonly ZooModel[] {
  const models: ZooModel[] = [];
  for (const [i, line] of text.split(/\r?\n/).entries()) {
    if (line.trim() === "" || line.startsWith("#")) continue;
    if (models.length === MODELS_MAX) throw new CommandError(`${origin}:${i + 1}: over ${MODELS_MAX} models`);
    const cells = line.split(",").map((cell) => cell.trim());
    const [alphaMs = NaN, betaMs = NaN, sloMs = NaN] = cells.slice(1).map((cell) => (cell === "" ? NaN : Number(cell)));
    const isSound = cells.length === 4 && alphaMs >= 0 && betaMs >= 0 && alphaMs + betaMs > 0 && sloMs > 0;
    if (!isSound || cells[0] === "") {
      const expected = "a line such as ResNet50,1.053,5.072,25 (model, alpha_ms, beta_ms, slo_ms) is expected";
      throw new CommandError(`${origin}:${i + 1}: ${expected}, not ${JSON.stringify(line.slice(0, 80))}`);
    }
    models.push({ name: cells[0]!, alphaMs, betaMs, sloMs });
  }
  if (models.length === 0) throw new CommandError(`${origin} has no models`);
  return models;
}
