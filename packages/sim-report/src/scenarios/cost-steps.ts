/** Reads `costs` of a scenario file: costs of late answers in steps (docs/algorithms.md, B8). */
import type { CostRule } from "@tutti/simulator";
import type { Problem, YamlPath } from "./located-yaml.ts";

/** The schema has checked these. */
export interface CostEntry {
  readonly afterSlos: number;
  readonly cost: number;
}

/** @returns an object with the costs, or without them where the entry has none or wrong ones */
export function costsOf(
  { costs }: { readonly costs?: readonly CostEntry[] },
  path: YamlPath,
  problems: Problem[],
): { costs?: readonly CostRule[] } {
  if (costs === undefined) return {};
  const before = problems.length;
  if (costs[0]!.afterSlos !== 1) {
    const text = `${costs[0]!.afterSlos} is not the SLO; the first step has afterSlos: 1`;
    problems.push({ path: [...path, "costs", 0, "afterSlos"], text });
  }
  for (let i = 1; i < costs.length; i++) {
    const [one, last] = [costs[i]!, costs[i - 1]!];
    if (one.afterSlos <= last.afterSlos) {
      const text = `${one.afterSlos} comes after ${last.afterSlos}; put steps in ascending order, each once`;
      problems.push({ path: [...path, "costs", i, "afterSlos"], text });
    }
    if (one.cost < last.cost) {
      const text = `${one.cost} is less than ${last.cost} before it; a later answer can't cost less`;
      problems.push({ path: [...path, "costs", i, "cost"], text });
    }
  }
  return problems.length > before ? {} : { costs: costs.map(({ afterSlos, cost }) => ({ slos: afterSlos, cost })) };
}
