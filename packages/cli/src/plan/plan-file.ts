/**
 * Input files of `tutti plan`: YAML, checked against the schema of their kind, then for consistency. docs/planning.md
 * is the reference.
 */
import {
  type Problem,
  type SchemaCheck,
  FamilyFile,
  choiceOf,
  SCENARIO_SCHEMA,
  schemaCheck,
} from "@tutti/sim-report/scenarios";

export const PLAN_KINDS = ["subclusters", "pack", "fractions", "scale", "query"] as const;
export type PlanKind = (typeof PLAN_KINDS)[number];

export const planSchema = (kind: PlanKind): URL => new URL(`./${kind}.schema.json`, import.meta.url);

const EXAMPLES: Readonly<Record<PlanKind, string>> = {
  subclusters: "test/bench/plans/e5-subclusters.yaml",
  pack: "test/bench/plans/c9-merging.yaml",
  fractions: "test/bench/plans/d6-mixes.yaml",
  scale: "test/bench/plans/scale-steps.yaml",
  query: "test/bench/plans/c9-split.yaml",
};

/** Flags of every kind of plan. */
export interface PlanFlags {
  readonly set?: readonly string[];
  readonly json?: boolean;
  readonly explain?: boolean;
  readonly html?: string;
}

export interface PlanFile<Document> {
  readonly document: Document;
  readonly origin: string;
  /** Ends the command if there are problems that the schema can't detect. */
  readonly giveUpOn: (problems: readonly Problem[]) => void;
}

const checks = new Map<PlanKind, SchemaCheck>();

/** @throws {CommandError} naming file, line and column of every error, and saying what to write instead */
export async function readPlanFile<Document>(
  kind: PlanKind,
  path: string,
  settings: readonly string[] = [],
): Promise<PlanFile<Document>> {
  let check = checks.get(kind);
  if (check === undefined) checks.set(kind, (check = schemaCheck(planSchema(kind), [SCENARIO_SCHEMA])));
  const file = await FamilyFile.read(path, {
    check,
    example: `an input file, such as ${EXAMPLES[kind]}`,
    advice: `an input is a map of keys; ${EXAMPLES[kind]} is one`,
  });
  const document = file.document(choiceOf(settings)) as Document;
  return { document, origin: file.origin, giveUpOn: (problems) => file.giveUpOn(problems) };
}

/** Reports duplicate names. */
export function checkNames(
  list: "streams" | "models" | "stages",
  entries: readonly { readonly name: string }[],
  problems: Problem[],
): void {
  const seen = new Set<string>();
  for (const [i, { name }] of entries.entries()) {
    if (seen.has(name))
      problems.push({ path: [list, i, "name"], text: `there are two ${list} "${name}"; give one another name` });
    seen.add(name);
  }
}
