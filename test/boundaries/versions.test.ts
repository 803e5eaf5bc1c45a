import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { TUTTI_RELEASE } from "@tutti/protocol";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
const read = (file: string): string => readFileSync(join(ROOT, file), "utf8");

test("all packages have the release's number", () => {
  const manifests = [
    "package.json",
    "test/package.json",
    ...globSync("{packages,services}/*/package.json", { cwd: ROOT }),
  ];
  expect(manifests.length).toBeGreaterThan(30);
  const others = manifests.filter((file) => (JSON.parse(read(file)) as { version: string }).version !== TUTTI_RELEASE);
  expect(others).toEqual([]);
});

test("the Helm chart has the release's number, and takes the image of that number", () => {
  const chart = read("infra/deploy/chart/Chart.yaml");
  const numbers = ["version", "appVersion"].map((key) => new RegExp(`^${key}: (.+)$`, "m").exec(chart)?.[1]);
  expect(numbers).toEqual([TUTTI_RELEASE, TUTTI_RELEASE]);
});

test("the changelog begins with the release's section", () => {
  expect(/^## (.+?) - /m.exec(read("CHANGELOG.md"))?.[1]).toBe(TUTTI_RELEASE);
});

test("every script of the repository sets up what it needs", () => {
  const { scripts } = JSON.parse(read("package.json")) as { scripts: Readonly<Record<string, string>> };
  const bare = Object.keys(scripts).filter((name) => !/^node infra\/(setup|jaeger)\/main\.mjs/.test(scripts[name]!));
  expect(bare).toEqual([]);
});

test("nothing that is installed for the repository comes from the release's tools", () => {
  const { devDependencies } = JSON.parse(read("infra/release/package.json")) as { devDependencies: object };
  const { packages } = JSON.parse(read("package-lock.json")) as { packages: Readonly<Record<string, object>> };
  const tools = Object.keys(devDependencies).filter((name) => name !== "typescript");
  expect(tools).toContain("tsdown");
  expect(tools.filter((name) => packages[`node_modules/${name}`] !== undefined)).toEqual([]);
});
