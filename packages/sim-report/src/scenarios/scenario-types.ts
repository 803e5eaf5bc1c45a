/** Reads `types` of a scenario file: unlike accelerators. */
import { type Scenario, elasticPolicyNames, isElasticPolicy } from "@tutti/simulator";
import type { Problem } from "./located-yaml.ts";

export interface TypeEntry {
  readonly name: string;
  readonly gpus: number;
  readonly times?: number;
}

/** Keys that say something about accelerators that are all alike. */
const ALIKE = ["gpus", "gpusPerModel", "planner", "pipelines", "subClusters", "noise"] as const;

export function typesOf(
  document: { readonly types?: readonly TypeEntry[] } & Partial<Readonly<Record<(typeof ALIKE)[number], unknown>>>,
  overrides: { readonly gpus?: number },
  problems: Problem[],
): Scenario["types"] {
  const { types } = document;
  if (types === undefined) return undefined;
  for (const key of ALIKE)
    if (document[key] !== undefined) problems.push({ path: [key], at: "key", text: "doesn't go with types" });
  if (overrides.gpus !== undefined)
    problems.push({ path: ["types"], text: "doesn't go with --gpus: say how many of each" });
  for (const [i, { name }] of types.entries())
    if (types.findIndex((other) => other.name === name) < i)
      problems.push({ path: ["types", i, "name"], text: `${name} is there twice` });
  return types.map(({ name, gpus, times = 1 }) => ({ name, gpus, times }));
}

/** The reason why a policy can't run a scenario with unlike accelerators; undefined: it can. */
export function unfitForTypes({ types, models }: Scenario, policy: string): string | undefined {
  if (types === undefined)
    return policy === "default:pools" ? "'default:pools' needs types of accelerators" : undefined;
  if (!isElasticPolicy(policy))
    return `'${policy}' is for accelerators that are all alike; with types use ${elasticPolicyNames().join(", ")}`;
  const dynamic = models.find((model) => model.dynamic !== undefined);
  return dynamic && `types: how long ${dynamic.name} takes on each is not known`;
}
