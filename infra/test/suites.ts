import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** One part of `npm test`: a command that answers yes or no, or a vitest project whose tests are counted. */
export type Suite =
  | { readonly kind: "command"; readonly name: string; readonly group: string; readonly command: readonly string[] }
  | { readonly kind: "vitest"; readonly name: string; readonly group: string };

/**
 * Order of the suites. Cheap and telling ones come first; those that start whole systems or measure come last.
 */
const firstOnes = ["boundaries", "unit", "setup", "golden", "simulation"];
const lastOnes = ["conformance", "containers", "kubernetes", "attack", "soak", "release", "alone", "e2e", "bench"];

/** Suites that compute, as checks do: a busy machine makes them slower, and what few of them time has room for that. */
const computing = ["boundaries", "unit", "golden", "simulation", "chart", "cluster", "docs", "fuzz"];
/** Suites that wait most of their time, and judge no time that a busy machine spoils. */
const waiting = ["containers"];

/** Every suite of the repository, in the order in which they run. */
export function allSuites(root: string): Suite[] {
  const cached = ["--cache", "--cache-strategy", "content", "--cache-location", ".tutti/cache/prettier.json"];
  const checks: Suite[] = [
    command("format", ["node_modules/prettier/bin/prettier.cjs", "--check", "--log-level", "warn", ...cached, "."]),
    command("lint", ["infra/lint/run.mjs"]),
    command("types", ["node_modules/typescript/bin/tsc", "-p", "."]),
    // The page is a browser's program: it has the DOM's types, and none of Node's.
    command("types-of-the-console", ["node_modules/typescript/bin/tsc", "-p", "packages/console/page"]),
  ];
  return [...checks, ...orderSuites(["unit", ...testFolders(root)]).map(vitestSuite)];
}

const command = (name: string, args: string[]): Suite => ({ kind: "command", name, group: "check", command: args });
const vitestSuite = (name: string): Suite => ({ kind: "vitest", name, group: name });

/** The folders of test/ that hold tests: each is a vitest project of the same name (vitest.config.ts). */
function testFolders(root: string): string[] {
  const folder = join(root, "test");
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name !== "node_modules")
    .map((entry) => entry.name)
    .filter((name) =>
      readdirSync(join(folder, name), { recursive: true }).some((file) => /\.test\.ts$/.test(`${file}`)),
    );
}

export function orderSuites(names: readonly string[]): string[] {
  const place = (name: string): number => {
    if (firstOnes.includes(name)) return firstOnes.indexOf(name) - firstOnes.length;
    return lastOnes.indexOf(name) + 1; // 0 for one that neither list names
  };
  return [...names].sort((a, b) => place(a) - place(b) || a.localeCompare(b));
}

/** Suites that run at the same time. */
export interface Stage {
  /** One after the other; checks two at a time. */
  readonly first: readonly Suite[];
  /** One after the other, beside `first`. */
  readonly beside: readonly Suite[];
}

/**
 * Divides suites into stages: those that compute fill the time in which others wait. Nothing runs beside a suite that
 * no list names: it may measure. A suite that would run beside nothing runs as any other does.
 */
export function stagesOf(suites: readonly Suite[]): Stage[] {
  const computes = suites.filter(({ kind, name }) => kind === "command" || computing.includes(name));
  const waits = suites.filter(({ name }) => waiting.includes(name));
  const measures = suites.filter((suite) => !computes.includes(suite) && !waits.includes(suite));
  return [
    computes.length > 0 ? { first: computes, beside: waits } : { first: waits, beside: [] },
    { first: measures, beside: [] },
  ];
}

export interface Selection {
  readonly suites: readonly Suite[];
  /** Paths (they hold a "/") that narrow vitest suites. */
  readonly filters: readonly string[];
  readonly unknown: readonly string[];
}

/**
 * `npm test -- unit packages/units`: names of suites or of the group "check", and paths. Nothing named is everything.
 */
export function select(suites: readonly Suite[], args: readonly string[]): Selection {
  const filters = args.filter((arg) => arg.includes("/"));
  const names = args.filter((arg) => !arg.includes("/"));
  const matches = (suite: Suite, name: string): boolean => suite.name === name || suite.group === name;
  const chosen = suites.filter((suite) =>
    names.length === 0 ? filters.length === 0 || suite.kind === "vitest" : names.some((name) => matches(suite, name)),
  );
  return { suites: chosen, filters, unknown: names.filter((name) => !suites.some((suite) => matches(suite, name))) };
}
