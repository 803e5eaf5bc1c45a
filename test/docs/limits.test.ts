/** docs/limits.md has every bound of a running system, with its value and the test that reaches it (T7). */
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
/**
 * Folders below packages/. The virtual clock and the clock of a process are left out: they bound nothing that a user
 * can reach.
 */
const FOLDERS = [
  ...["actors/src", "ingress/src", "executor/src", "bus-nats/src", "engine-onnx/src", "gateway/src", "console/src"],
  ...["jobs/src", "onnx-tools/src/media", "node/src/decode", "node/src/steps", "admin/src/sources"],
  ...["pipelines/src", "ports/src/bus", "ports/src/engine", "ports/src/jobs", "ports/src/pull", "ports/src/store"],
  ...["protocol/src", "pull-tcp/src", "scheduling/src", "telemetry-otel/src", "units/src", "wire/src"],
];
const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");

interface Row {
  readonly name: string;
  readonly file: string;
  readonly value: string;
  readonly rest: readonly string[];
}

const rows = read("docs/limits.md")
  .split("\n")
  .map((line): Row | undefined => {
    const [first = "", value = "", ...rest] = line
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim());
    const found = /^`(\w+_MAX)` in \[[\w-]+\]\(\.\.\/(.+)\)$/.exec(first);
    return found === null ? undefined : { name: found[1]!, file: found[2]!, value, rest };
  })
  .filter((row) => row !== undefined);

function declared(): string[] {
  return FOLDERS.flatMap((name) => {
    const folder = `packages/${name}`;
    const files = readdirSync(join(ROOT, folder), { recursive: true }).map(String);
    return files
      .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts") && !file.includes("testing"))
      .flatMap((file) => {
        const constants = read(`${folder}/${file}`).matchAll(
          /^(?:export )?const ([A-Z][A-Z0-9_]*_MAX)(?:: [^=]+)? = (.+);/gm,
        );
        return [...constants].map(([, constant, value = ""]) => {
          const shown = value.replaceAll(/(\d)_(?=\d)/g, "$1,");
          return `\`${constant}\` in [${name.split("/")[0]}](../${folder}/${file}) | ${shown}`;
        });
      });
  });
}

test("every bound is listed once, with its value; a row that is missing is printed as it should be", () => {
  const listed = rows.map(({ name, file, value }) => `\`${name}\` in [${file.split("/")[1]}](../${file}) | ${value}`);
  expect(listed.toSorted()).toEqual(declared().toSorted());
});

test("every test that a bound names is there", () => {
  const tests = rows.flatMap(({ name, rest }) => {
    const found = /^\[(.+)\]\(\.\.\/(.+\.test\.ts)\)$/.exec(rest[1] ?? "");
    return found === null ? [] : [{ name, title: found[1]!, file: found[2]! }];
  });
  expect(tests.length).toBeGreaterThan(40);
  for (const { name, title, file } of tests) {
    expect(existsSync(join(ROOT, file)), `${name}: ${file}`).toBe(true);
    expect(read(file).includes(title), `${name}: "${title}" in ${file}`).toBe(true);
  }
});
