/** Reads `jobs` of a scenario file: work without a deadline. */
import { type Scenario, elasticPolicyNames, isElasticPolicy } from "@tutti/simulator";
import { seconds } from "@tutti/units";
import type { Problem } from "./located-yaml.ts";
import { type LatencyEntry, profileOf } from "./scenario-models.ts";

export interface JobEntry extends LatencyEntry {
  readonly name: string;
}

/** Keys that divide accelerators, or make them come and go. */
const APART = ["types", "planner", "pipelines", "subClusters", "interference"] as const;
/** Batches up to that time are listed where `batchMax` is left out. */
const LONGEST = seconds(10);

export function jobsOf(
  document: { readonly jobs?: readonly JobEntry[] } & Partial<Readonly<Record<(typeof APART)[number], unknown>>>,
  problems: Problem[],
): Pick<Scenario, "jobs"> {
  const { jobs } = document;
  if (jobs === undefined) return {};
  for (const key of APART)
    if (document[key] !== undefined) problems.push({ path: [key], at: "key", text: "doesn't go with jobs" });
  return {
    jobs: jobs.flatMap((entry, i) => {
      if (jobs.findIndex(({ name }) => name === entry.name) < i)
        problems.push({ path: ["jobs", i, "name"], text: `${entry.name} is there twice` });
      const profile = profileOf(entry, LONGEST, ["jobs", i], problems);
      return profile === undefined ? [] : [{ name: entry.name, profile }];
    }),
  };
}

/** The reason why a policy can't run a scenario with jobs; undefined: it can. */
export function unfitForJobs({ jobs }: Scenario, policy: string): string | undefined {
  if (jobs === undefined) return undefined;
  const known = isElasticPolicy(policy) && !["default:halves", "default:pools"].includes(policy);
  return known ? undefined : `'${policy}' has no jobs; use ${elasticPolicyNames().join(", ")}`;
}
