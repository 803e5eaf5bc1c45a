/**
 * `npm run fuzz -- --properties [--rounds n] [--from seed]` runs every file that has property tests. Each round has
 * another seed. Exit code 1: properties failed; the commands that reproduce the failures are printed.
 */
import { spawnSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";

/** The seed of every property of a run of vitest (test/fixtures/property-seeds.ts). */
export const PROPERTY_SEED_VARIABLE = "TUTTI_PROPERTY_SEED";

const USAGE = "npm run fuzz -- --properties [--rounds n] [--from seed]";
const ROOT = join(import.meta.dirname, "../..");

/** Files of tests that draw their input. */
function propertyTests(): string[] {
  return ["packages", "services", "test"]
    .flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" }).map((name) => join(folder, name)),
    )
    .filter((name) => name.endsWith(".test.ts") && !name.includes("node_modules"))
    .filter((name) => readFileSync(join(ROOT, name), "utf8").includes('from "fast-check"'));
}

function main(): number {
  const text = { type: "string" } as const;
  const { values } = parseArgs({ options: { rounds: text, from: text } });
  const [rounds, from] = [Number(values.rounds ?? 10), Number(values.from ?? 2)];
  if (!(rounds > 0) || !Number.isInteger(from)) {
    console.error(`usage: ${USAGE}`);
    return 2;
  }
  const files = propertyTests();
  const failing: number[] = [];
  const projects = ["unit", "fuzz", "cluster"].flatMap((name) => ["--project", name]);
  const vitest = ["node_modules/vitest/vitest.mjs", "run", ...projects, "--reporter", "agent"];
  for (let seed = from; seed < from + rounds; seed++) {
    const env = { ...process.env, [PROPERTY_SEED_VARIABLE]: String(seed) };
    const { status } = spawnSync(process.execPath, [...vitest, ...files], { cwd: ROOT, env, stdio: "inherit" });
    if (status !== 0) failing.push(seed);
    else console.log(`seed ${seed}: the properties of ${files.length} files hold`);
  }
  for (const seed of failing) console.log(`again: ${PROPERTY_SEED_VARIABLE}=${seed} npm test -- unit fuzz cluster`);
  return failing.length === 0 ? 0 : 1;
}

if (import.meta.main) process.exitCode = main();
