/** The served OpenAPI document against the gateway, by a tool that takes nothing but the document. */
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { pythonWith } from "../fixtures/python.ts";
import { type GatewayCluster, TOKEN, startGatewayCluster } from "./gateway-cluster.ts";

const SCHEMATHESIS = "schemathesis==4.32.5";
/** Random examples of each operation; values at the bounds of its types come on top. */
const EXAMPLES = 5;

/**
 * Operations that refuse some bodies of the right form: tensors must be the model's, a file must be a model, settings
 * can only be what they are, and CUDA's shared memory is not served.
 */
const MORE_THAN_FORM = [
  ...["infer", "inferOfVersion", "predictV1", "repositoryLoad", "cudaRegister"],
  ...["changeTraceSettings", "changeModelTraceSettings", "changeLogSettings"],
];
const CONFIG = `
[generation]
deterministic = true
max-examples = ${EXAMPLES}
${MORE_THAN_FORM.map(
  (operation) => `
[[operations]]
include-operation-id = "${operation}"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "401", "403", "404", "413", "422", "429", "503"]
`,
).join("")}`;
const OF_THE_MODEL = `
[parameters]
"path.model" = "add-one"
"path.version" = "1"
`;

let python: Awaited<ReturnType<typeof pythonWith>>;
let cluster: GatewayCluster | undefined;
beforeAll(async () => {
  python = await pythonWith("schemathesis-4.32.5", [SCHEMATHESIS]);
  if (!("python" in python)) return;
  cluster = await startGatewayCluster();
  // Until a new planner has given its first advice, /scaling answers 503, which the tool takes for a fault.
  const advised = async (): Promise<boolean> => (await fetch(`${cluster!.http}/scaling`)).ok;
  await vi.waitUntil(advised, { timeout: 30_000, interval: 200 });
}, 600_000);
beforeEach((context) => {
  if ("missing" in python) context.skip(python.missing);
});
afterAll(() => cluster?.stop());

/** @returns what the tool found, which is nothing where it ends with 0, without what it prints of itself */
async function found(name: string, config: string, ...args: string[]): Promise<string> {
  const file = join(cluster!.up.runDirectory, `${name}.toml`);
  await writeFile(file, config);
  const command = ["-m", "schemathesis.cli", "--config-file", file, "run", `${cluster!.http}/openapi.json`];
  const more = ["--phases", "coverage,fuzzing", "--continue-on-failure", "--no-color", "--warnings", "off", ...args];
  const options = { cwd: cluster!.up.runDirectory, maxBuffer: 16 * 1_048_576 };
  const ended = promisify(execFile)((python as { python: string }).python, [...command, ...more], options);
  return ended.then(
    ({ stdout }) => (/^ *Tested: +(\d+)$/m.test(stdout) ? "" : stdout),
    ({ stdout }: { readonly stdout: string }) => stdout.slice(Math.max(0, stdout.search(/^=+ (ERRORS|FAILURES) =+$/m))),
  );
}

test("schemathesis finds nothing where models are unknown, and nobody has a right", { timeout: 120_000 }, async () => {
  expect(await found("strangers", CONFIG)).toBe("");
});

test(
  "schemathesis finds nothing where the model is served, and the admin token is sent",
  { timeout: 120_000 },
  async () => {
    // Without its model the other operations would be those of an unknown one.
    const args = ["-H", `Authorization: Bearer ${TOKEN}`, "--exclude-operation-id", "repositoryUnload"];
    expect(await found("administrator", `${OF_THE_MODEL}${CONFIG}`, ...args)).toBe("");
  },
);
