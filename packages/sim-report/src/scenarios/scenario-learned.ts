/** Reads `profiles` of a scenario file: what schedulers plan with. */
import { type Scenario, isElasticPolicy } from "@tutti/simulator";
import type { Problem } from "./located-yaml.ts";

/** "learned": from runs, beginning with the models' profiles, or with so many times these. */
export type ProfilesEntry = "learned" | { readonly given: number };

/** Keys whose plans depend on more than profiles of whole accelerators that are alike. */
const PLANNED_OTHERWISE = ["types", "planner", "pipelines", "jobs"] as const;

export function learnedOf(
  document: { readonly profiles?: ProfilesEntry } & Partial<
    Readonly<Record<(typeof PLANNED_OTHERWISE)[number], unknown>>
  >,
  models: Scenario["models"],
  problems: Problem[],
): Pick<Scenario, "learned"> {
  const { profiles } = document;
  if (profiles === undefined) return {};
  for (const key of PLANNED_OTHERWISE)
    if (document[key] !== undefined) problems.push({ path: ["profiles"], text: `doesn't go with ${key}` });
  const other = models.find(({ dynamic, parts }) => dynamic !== undefined || parts !== undefined);
  if (other !== undefined)
    problems.push({ path: ["profiles"], text: `${other.name}: only l(b) of whole accelerators is learned` });
  return { learned: { given: profiles === "learned" ? 1 : profiles.given } };
}

/** The reason why a policy can't learn; undefined: it can. */
export const unfitToLearn = ({ learned }: Scenario, policy: string): string | undefined =>
  learned === undefined || isElasticPolicy(policy) ? undefined : `'${policy}' plans with given profiles only`;
