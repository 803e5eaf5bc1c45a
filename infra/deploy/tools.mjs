/**
 * `node infra/deploy/tools.mjs [helm] [validate]` builds the programs that `test/chart` takes, into .tutti/bin: helm
 * and the two validators of manifests. `tools.mjs kubernetes` builds those of local-cluster/, in about 40 minutes of
 * processor time. It needs Go and its module proxy.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";

const HELM = "helm.sh/helm/v3/cmd/helm@v3.19.4";
/** The version in local-cluster/go.mod: a build from the module proxy doesn't know its own. */
const KUBERNETES =
  "-s -w -X k8s.io/component-base/version.gitVersion=v1.34.2 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=34";
const BIN = join(import.meta.dirname, "../../.tutti/bin");

/** @type {Record<string, readonly (readonly [folder: string, args: readonly string[]])[]>} */
const builds = {
  helm: [[".", ["install", HELM]]],
  validate: [
    ["validate", ["build", "-o", join(BIN, "validate-oldest"), "./oldest"]],
    ["validate/newest", ["build", "-o", join(BIN, "validate-newest"), "."]],
  ],
  kubernetes: [
    ["local-cluster", ["build", "-ldflags", KUBERNETES, "-o", join(BIN, "kubernetes"), "."]],
    ["local-cluster", ["build", "-ldflags", "-s -w", "-o", join(BIN, "pause"), "./pause"]],
    ["local-cluster/dns", ["build", "-ldflags", "-s -w", "-o", join(BIN, "coredns"), "."]],
  ],
};

const names = process.argv.length > 2 ? process.argv.slice(2) : ["helm", "validate"];
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
