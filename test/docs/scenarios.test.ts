/** docs/simulator.md describes every key of scenario files, and every shipped scenario. */
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "..", "..");
const doc = readFileSync(join(root, "docs/simulator.md"), "utf8");

interface Schema {
  readonly properties: Readonly<Record<string, unknown>>;
  readonly $defs: Readonly<Record<string, Schema>>;
}
const schema = JSON.parse(
  readFileSync(join(root, "packages/sim-report/src/scenarios/scenario.schema.json"), "utf8"),
) as unknown as Schema;

/** Keys named in the first cells of the table after `heading`. */
function keysOfTable(heading: string): string[] {
  const section = doc.slice(doc.indexOf(`\n${heading}\n`) + 1);
  const rows = section.slice(section.indexOf("|---")).split("\n").slice(1);
  const end = rows.findIndex((row) => !row.startsWith("|"));
  return rows.slice(0, end).flatMap((row) => [...row.split("|")[1]!.matchAll(/`([^`]+)`/g)].map(([, key = ""]) => key));
}

test("every key of a scenario and of a model is documented, and no other", () => {
  expect(keysOfTable("## Scenario files").toSorted()).toEqual(Object.keys(schema.properties).toSorted());
  expect(keysOfTable("### Models").toSorted()).toEqual(Object.keys(schema.$defs["model"]!.properties).toSorted());
});

test("every shipped scenario is listed, and every listed one is shipped", () => {
  const shipped = readdirSync(join(root, "test/bench/scenarios")).filter((name) => name.endsWith(".yaml"));
  const listed = keysOfTable("## Shipped scenarios").map((name) => new RegExp(`^${name.replace("*", ".*")}\\.yaml$`));
  expect(shipped.filter((name) => !listed.some((pattern) => pattern.test(name)))).toEqual([]);
  expect(listed.filter((pattern) => !shipped.some((name) => pattern.test(name)))).toEqual([]);
});
