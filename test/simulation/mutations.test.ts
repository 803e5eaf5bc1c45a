import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { Copy, patched } from "./mutant.ts";
import { MUTATIONS, type Mutation } from "./mutations.ts";

/** Number of seeds within which each bug must be found. With a fresh hint (`from`) it is the first. */
const SEEDS = 300;
/** A hint that is off by so many seeds is told: renew it. */
const FAR = 10;
/** A time-out for machines that are busy with other work. */
const TIMEOUT_MS = 900_000;
const copies: Copy[] = [];
afterAll(() => copies.forEach((copy) => copy.remove()));

test.for(MUTATIONS)("$name: still fits the source", (mutation) => {
  const source = readFileSync(join(import.meta.dirname, "../../packages", mutation.file), "utf8");
  expect(patched(source, mutation)).not.toBe(source);
});

test("every planted bug is found by some seed, each in a copy of the packages", { timeout: TIMEOUT_MS }, async () => {
  const left = [...MUTATIONS];
  const missed: string[] = [];
  const work = async (copy: Copy): Promise<void> => {
    for (let mutation = left.shift(); mutation !== undefined; mutation = left.shift()) {
      const { seed, output } = await copy.find(mutation, SEEDS);
      if (seed === undefined) missed.push(`${mutation.name}: ${output.slice(-500)}`);
      else if (seed >= (mutation.from ?? 1) + FAR) console.warn(`found from seed ${seed} on: ${mutation.name}`);
    }
  };
  // The seeds without a bug run at the same time as this file, and end sooner.
  const workers = Math.min(4, Math.max(2, availableParallelism() - 1));
  for (let i = 0; i < workers; i++) copies.push(new Copy());
  await Promise.all(copies.map(work));
  expect(missed).toEqual([]);
  expect(MUTATIONS.length).toBeGreaterThanOrEqual(8);
});

test("a patch that no longer applies, or in two places, is an error and no found bug", () => {
  const mutation: Mutation = { name: "m", file: "f", find: "a", replace: "b" };
  expect(patched("xax", mutation)).toBe("xbx");
  expect(() => patched("xxx", mutation)).toThrow("fits 0 places");
  expect(() => patched("aa", mutation)).toThrow("fits 2 places");
});
