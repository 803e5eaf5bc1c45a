import { Prng } from "@tutti/units";
import type { SubClusterProblem } from "../index.ts";

/** Static and dynamic memory of docs/algorithms.md, E3, in MB. */
const MEMORY = [
  [99, 2172],
  [88, 1519],
  [230, 3386],
  [84, 2653],
  [170, 2798],
  [822, 6200],
] as const;
/** How far above the mean a sub-cluster's rate may lie. */
export const RATE_SLACK = 1.15;

/** E3: rates of Exp(100), bounds 15 % and 10 % above the mean. */
export function drawnProblem(count: number, clusters: number, seed: number): SubClusterProblem {
  const prng = new Prng(seed);
  const models = Array.from({ length: count }, () => {
    const [staticMemory, dynamicMemory] = MEMORY[prng.nextInt(MEMORY.length)]!;
    return { rate: prng.nextExponential(1 / 100), staticMemory, dynamicMemory };
  });
  const rate = models.reduce((sum, model) => sum + model.rate, 0) / clusters;
  const memory = models.reduce((sum, model) => sum + model.staticMemory, 0) / clusters;
  return { models, clusters, rateMax: RATE_SLACK * rate, memoryMax: 1.1 * memory + 6200 };
}
