/**
 * `node infra/deploy/tools.mjs [helm] [validate]` builds the programs that `test/chart` takes, into .tutti/bin: helm
 * and the two validators of manifests. It needs Go and its module proxy.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";

const HELM = "helm.sh/helm/v3/cmd/helm@v3.19.4";
const BIN = join(import.meta.dirname, "../../.tutti/bin");

/** @type {Record<string, readonly (readonly [folder: string, args: readonly string[]])[]>} */
const builds = {
  helm: [[".", ["install", HELM]]],
  validate: [
    ["validate", ["build", "-o", join(BIN, "validate-oldest"), "./oldest"]],
    ["validate/newest", ["build", "-o", join(BIN, "validate-newest"), "."]],
  ],
};

const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(builds);
const unknown = names.filter((name) => !(name in builds));
if (unknown.length > 0) {
  console.error(`No such tool: ${unknown.join(", ")}. There are: ${Object.keys(builds).join(", ")}.`);
  process.exit(2);
}
mkdirSync(BIN, { recursive: true });
for (const [folder, args] of names.flatMap((name) => builds[name] ?? [])) {
  const { status, error } = spawnSync("go", args, {
    ...{ cwd: join(import.meta.dirname, folder), stdio: "inherit" },
    env: { ...process.env, GOBIN: BIN, CGO_ENABLED: "0" },
  });
  if (error !== undefined) console.error(`go can't be run: ${error.message}`);
  if (status !== 0) process.exit(1);
}
