/** A query's graph, and its series–parallel structure (Nexus §6.2; docs/algorithms.md, C5). */
import type { BatchLatency } from "../packing/stream.ts";

export interface QueryStage {
  readonly name: string;
  readonly latency: BatchLatency;
  /** Requests per ms: the root's rate times the fan-outs on the way. */
  readonly rate: number;
}
export interface Query {
  readonly stages: readonly QueryStage[];
  /** Edges from a stage to the ones that it feeds, by name. */
  readonly edges: readonly (readonly [from: string, to: string])[];
  /** Latency bound of every path from the root to a leaf, in ms. */
  readonly bound: number;
}

/** How curves combine: a stage, one after the other, or side by side within the same budget. */
export type Structure =
  | { readonly kind: "stage"; readonly stage: QueryStage }
  | { readonly kind: "series"; readonly parts: readonly Structure[] }
  | { readonly kind: "parallel"; readonly parts: readonly Structure[] };

export class QueryShapeError extends Error {
  override readonly name = "QueryShapeError";
}

/**
 * Series–parallel structure of a query's graph. It accepts trees, and graphs in which all branches of a fork join again
 * in one stage, nested to any depth.
 *
 * @throws {QueryShapeError} for graphs with several roots, cycles, unknown stages, or branches that meet other than by
 *   joining all in one stage
 */
export function structureOf({ stages, edges }: Pick<Query, "stages" | "edges">): Structure {
  const byName = new Map(stages.map((stage) => [stage.name, stage]));
  if (byName.size !== stages.length || stages.length === 0) throw new QueryShapeError("stages need names of their own");
  const next = new Map(stages.map(({ name }) => [name, [] as string[]]));
  const fed = new Set<string>();
  for (const [from, to] of edges) {
    for (const name of [from, to]) if (!byName.has(name)) throw new QueryShapeError(`no stage is called ${name}`);
    next.get(from)!.push(to);
    fed.add(to);
  }
  const roots = stages.filter(({ name }) => !fed.has(name));
  if (roots.length !== 1) throw new QueryShapeError(`${roots.length} stages are fed by no other; a query has one root`);
  const always = alwaysPassed(roots[0]!.name, next);
  const visited = new Set<string>();

  /** The structure from a stage to the one before `end`, or to the leaves. */
  const chain = (start: string, end: string | undefined): Structure => {
    const parts: Structure[] = [];
    for (let name: string | undefined = start; name !== undefined && name !== end;) {
      if (visited.has(name))
        throw new QueryShapeError(
          `branches meet at ${name} that don't all meet there: the graph is not series–parallel`,
        );
      visited.add(name);
      parts.push({ kind: "stage", stage: byName.get(name)! });
      const following: readonly string[] = next.get(name)!;
      if (following.length <= 1) name = following[0];
      else {
        const join = nearestJoin(following, always);
        parts.push({ kind: "parallel", parts: following.map((one) => chain(one, join)) });
        name = join;
      }
    }
    return parts.length === 1 ? parts[0]! : { kind: "series", parts };
  };
  const structure = chain(roots[0]!.name, undefined);
  if (visited.size !== stages.length) throw new QueryShapeError("some stages feed one another in a circle");
  return structure;
}

/** For each reachable stage, the stages that every path from it to a leaf goes through, itself included. */
function alwaysPassed(root: string, next: ReadonlyMap<string, readonly string[]>): Map<string, Set<string>> {
  const always = new Map<string, Set<string>>();
  const underway = new Set<string>();
  const visit = (name: string): Set<string> => {
    const known = always.get(name);
    if (known !== undefined) return known;
    if (underway.has(name)) throw new QueryShapeError(`${name} feeds itself in a circle`);
    underway.add(name);
    const ways = next.get(name)!.map(visit);
    const shared = ways.length === 0 ? new Set<string>() : ways.reduce(inBoth);
    const own = new Set([name, ...shared]);
    always.set(name, own);
    return own;
  };
  visit(root);
  return always;
}

/** The first stage that every branch goes through; undefined where the branches end apart. */
function nearestJoin(branches: readonly string[], always: ReadonlyMap<string, Set<string>>): string | undefined {
  const shared = branches.map((name) => always.get(name)!).reduce(inBoth);
  // The nearer a stage, the more stages come after it on every path.
  return [...shared].sort((a, b) => always.get(b)!.size - always.get(a)!.size)[0];
}

const inBoth = (a: ReadonlySet<string>, b: ReadonlySet<string>): Set<string> =>
  new Set([...a].filter((name) => b.has(name)));
