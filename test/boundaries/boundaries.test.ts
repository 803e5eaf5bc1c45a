import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { ESLint } from "eslint";
import ts from "typescript";
import tseslint from "typescript-eslint";
import { afterAll, beforeAll, expect, test } from "vitest";
import { computeProjectGraph, root } from "../../infra/lint/project-graph.mjs";

const boundaryRule = "@nx/enforce-module-boundaries";
const importRule = "@typescript-eslint/no-restricted-imports";

/** Rules on the imports of a file; this suite ignores all others. */
const reachRules = [
  boundaryRule,
  importRule,
  "no-restricted-globals",
  "no-restricted-properties",
  "no-restricted-syntax",
];

let eslint: ESLint;
let removeGraph = (): void => {};

beforeAll(async () => {
  removeGraph = await computeProjectGraph();
  // The probes are texts under the names of files that don't exist, so rules that need types can't run on them.
  eslint = new ESLint({ cwd: root, overrideConfig: [tseslint.configs.disableTypeChecked] });
});
afterAll(() => removeGraph());

async function broken(file: string, text: string): Promise<string[]> {
  const [result] = await eslint.lintText(`${text}\n`, { filePath: join(root, file) });
  const messages = result?.messages ?? [];
  expect(messages.filter((message) => message.fatal)).toEqual([]);
  return [...new Set(messages.map((message) => message.ruleId ?? "none"))].filter((rule) => reachRules.includes(rule));
}

const core = "packages/scheduling/src/probe.ts";
const forbidden: [sentence: string, file: string, text: string, rule: string][] = [
  ["core imports no npm package", core, 'import "msgpackr";', boundaryRule],
  ["core imports nothing of Node", core, 'import "node:fs";', importRule],
  ["core imports nothing of Node, by its short name either", core, 'import "fs";', importRule],
  ["core imports no port", core, 'import "@tutti/ports/bus";', boundaryRule],
  ["core imports no adapter", core, 'import "@tutti/bus-nats";', boundaryRule],
  ["core imports no codec", core, 'import "@tutti/wire";', importRule],
  ["core reads no wall clock", core, "export const now = Date.now();", "no-restricted-globals"],
  ["core reads no wall clock through globalThis", core, "export const d = globalThis.Date;", "no-restricted-globals"],
  ["core reads no monotonic clock", core, "export const now = performance.now();", "no-restricted-globals"],
  ["core sets no timer", core, "setTimeout(() => {}, 1);", "no-restricted-globals"],
  ["core asks no process", core, "export const pid = process.pid;", "no-restricted-globals"],
  ["core draws no random number", core, "export const r = Math.random();", "no-restricted-properties"],
  ["core has no async function", core, "export async function f() {}", "no-restricted-syntax"],
  ["core awaits nothing", core, "await Promise.resolve();", "no-restricted-syntax"],
  ["core loads nothing dynamically", core, 'export const f = () => import("./x.ts");', "no-restricted-syntax"],
  ["profile is core too", "packages/profile/src/probe.ts", 'import "node:os";', importRule],
  ["base imports nothing above it", "packages/units/src/probe.ts", 'import "@tutti/protocol";', boundaryRule],
  ["a contract imports no core", "packages/protocol/src/probe.ts", 'import "@tutti/profile";', boundaryRule],
  ["protocol imports no npm package", "packages/protocol/src/probe.ts", 'import "msgpackr";', importRule],
  ["a port imports no actor", "packages/ports/src/bus/probe.ts", 'import "@tutti/actors";', boundaryRule],
  ["a port imports no core", "packages/ports/src/bus/probe.ts", 'import "@tutti/scheduling";', boundaryRule],
  ["a port imports no npm package", "packages/ports/src/engine/probe.ts", 'import "commander";', boundaryRule],
  ["an actor imports no adapter", "packages/actors/src/probe.ts", 'import "@tutti/bus-nats";', boundaryRule],
  ["an actor imports no npm package", "packages/actors/src/probe.ts", 'import "pino";', boundaryRule],
  ["an adapter imports no other adapter", "packages/pull-tcp/src/probe.ts", 'import "@tutti/bus-nats";', boundaryRule],
  ["an adapter imports no core", "packages/bus-nats/src/probe.ts", 'import "@tutti/scheduling";', boundaryRule],
  ["only bus-nats knows NATS", "packages/cli/src/probe.ts", 'import "@nats-io/transport-node";', importRule],
  ["only engine-onnx knows the runtime", "packages/cli/src/probe.ts", 'import "onnxruntime-node";', importRule],
  [
    "a type is an import too",
    "packages/cli/src/probe.ts",
    'import type { Tensor } from "onnxruntime-node";',
    importRule,
  ],
  [
    "one owner doesn't know another's library",
    "packages/engine-onnx/src/probe.ts",
    'import "@nats-io/kv";',
    importRule,
  ],
  ["a package imports no service", "packages/cli/src/probe.ts", 'import "@tutti/service-node";', importRule],
  ["a package imports no suite", "packages/cli/src/probe.ts", 'import "../../../test/e2e/probe.ts";', importRule],
  ["a test of a package imports no suite", "packages/cli/src/probe.test.ts", 'import "@tutti/test";', importRule],
  ["a suite imports no service", "test/e2e/probe.ts", 'import "@tutti/service-node";', importRule],
  ["a package reaches into no other by path", core, 'import "../../units/src/time.ts";', boundaryRule],
  ["no test is switched off", "packages/units/src/probe.test.ts", 'test.skip("x", () => {});', "no-restricted-syntax"],
];

test.each(forbidden)("%s", async (_sentence, file, text, rule) => {
  expect(await broken(file, text)).toContain(rule);
});

const allowed: [file: string, text: string][] = [
  [core, 'import "@tutti/units";\nimport "@tutti/protocol";\nimport "@tutti/profile";\nimport "./model-thread.ts";'],
  [
    "packages/scheduling/src/probe.test.ts",
    'import "vitest";\nimport "fast-check";\nimport "node:fs";\nperformance.now();',
  ],
  ["packages/wire/src/probe.ts", 'import "msgpackr";'],
  ["packages/ports/src/bus/probe.ts", 'import "@tutti/protocol";\nsetTimeout(() => {}, 1);'],
  ["packages/actors/src/probe.ts", 'import "@tutti/scheduling";\nimport "@tutti/ports/bus";\nimport "@tutti/wire";'],
  ["packages/bus-nats/src/probe.ts", 'import "@nats-io/transport-node";\nimport "@tutti/ports/bus";'],
  ["packages/engine-onnx/src/probe.ts", 'import "onnxruntime-node";\nimport "node:worker_threads";'],
  ["packages/cli/src/probe.ts", 'import "@tutti/client";\nimport "@tutti/bus-nats";\nimport "commander";'],
  ["services/node/src/probe.ts", 'import "@tutti/cli";\nimport "@tutti/actors";'],
  ["test/conformance/probe.test.ts", 'import "@nats-io/transport-node";\nimport "@tutti/engine-onnx";'],
];

test.each(allowed)("%s may import what its layer allows", async (file, text) => {
  expect(await broken(file, text)).toEqual([]);
});

const manifests = ["packages", "services"]
  .flatMap((folder) => readdirSync(join(root, folder)).map((name) => `${folder}/${name}`))
  .filter((folder) => existsSync(join(root, folder, "package.json")));

test.each(manifests)("%s declares every package that it imports", (name) => {
  const folder = join(root, name);
  const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Record<
    string,
    Record<string, string>
  >;
  const declared = new Set(
    Object.keys({ ...manifest["dependencies"], ...manifest["devDependencies"], ...manifest["peerDependencies"] }),
  );
  const missing = new Set<string>();
  for (const file of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    if (!/\.(ts|mjs)$/.test(file) || file.includes("node_modules")) continue;
    for (const imported of importedPackages(readFileSync(join(folder, file), "utf8"))) {
      const tool = file.endsWith(".test.ts") && ["vitest", "fast-check"].includes(imported);
      if (!tool && !declared.has(imported)) missing.add(`${basename(file)}: ${imported}`);
    }
  }
  expect([...missing]).toEqual([]);
});

test("no actor's folder imports from another's: what they share is in runtime/", () => {
  const source = join(root, "packages/actors/src");
  const imported = readdirSync(source, { recursive: true, encoding: "utf8" })
    .filter((file) => file.includes("/") && file.endsWith(".ts"))
    .flatMap((file) =>
      ts
        .preProcessFile(readFileSync(join(source, file), "utf8"), true, true)
        .importedFiles.filter(({ fileName }) => fileName.startsWith("."))
        .map(({ fileName }) => [file, join(file, "..", fileName)] as const),
    );
  const role = (file: string): string => file.split("/")[0] ?? "";
  expect(imported.filter(([file, other]) => ![role(file), "runtime"].includes(role(other)))).toEqual([]);
  expect(imported.length).toBeGreaterThan(100);
});

/** Names of the packages that a text imports or exports from: "@scope/name" of "@scope/name/part". */
function importedPackages(text: string): string[] {
  return ts
    .preProcessFile(text, true, true)
    .importedFiles.map((file) => file.fileName)
    .filter((specifier) => !/^(\.|\/|node:)/.test(specifier))
    .map((specifier) =>
      specifier
        .split("/")
        .slice(0, specifier.startsWith("@") ? 2 : 1)
        .join("/"),
    );
}

test.each(manifests)("%s names its layer, and npm start and npm test work in it", (folder) => {
  const manifest = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8")) as unknown;
  expect(manifest).toMatchObject({
    scripts: {
      start: "node ../../infra/setup/main.mjs start",
      test: `node ../../infra/setup/main.mjs test unit ${folder}/`,
    },
    nx: {
      tags: [expect.stringMatching(/^layer:/)],
      includedScripts: [], // the targets come from infra/nx, and a script of the same name would hide them
    },
  });
});
