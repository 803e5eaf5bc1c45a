/** The two published packages: how each is bundled, and what its folder holds besides the bundles. */
import { copyFileSync, cpSync, globSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { TUTTI_RELEASE } from "@tutti/protocol";

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

export interface Release {
  /** Folder below dist/. */
  readonly folder: string;
  readonly bundler: string;
  /** Only what is imported has types, for attw to look at. */
  readonly isImported: boolean;
  complete(root: string, target: string): void;
}

export const RELEASES: readonly Release[] = [
  { folder: "client", bundler: "client.tsdown.mjs", isImported: true, complete: completeClient },
  { folder: "tutti", bundler: "tutti.tsdown.mjs", isImported: false, complete: completeTutti },
];

/** Everything of the set-up that runs on a user's machine, in the same folders as here. */
const LAUNCHER = [
  ...[
    "tutti",
    "launch",
    "folder",
    "host",
    "lock",
    "nats-server",
    "nats-sources",
    "node-runtime",
    "npm",
    "progress",
  ].map((name) => `infra/setup/${name}.mjs`),
  "infra/jaeger/jaeger.mjs",
];
const DASHBOARDS = ["infra/dashboards/tutti-overview.json", "infra/dashboards/tutti-rules.yaml"];
/** Libraries inside the console's page and the charts; all others are dependencies and bring their licences. */
const BUNDLED = {
  "console/page": ["preact", "uplot"],
  lib: ["echarts", "zrender", "tslib"],
};

function completeClient(root: string, target: string): void {
  const { name, description } = readManifest(join(root, "packages/client/package.json"));
  writeManifest(target, {
    ...{ name, version: TUTTI_RELEASE, description: `${description} of Tutti: inference under latency SLOs over NATS` },
    ...common(["client", "nats"]),
    engines: { node: ">=20" },
    sideEffects: false,
    exports: { ".": { types: "./lib/index.d.ts", default: "./lib/index.js" } },
    dependencies: dependenciesOf(root, target),
  });
  copyFileSync(join(root, "LICENSE"), join(target, "LICENSE"));
  const readme = readFileSync(join(root, "packages/client/README.md"), "utf8");
  writeFileSync(join(target, "README.md"), readme.slice(0, readme.indexOf("\n## Inside\n") + 1));
}

function completeTutti(root: string, target: string): void {
  const { name, description } = readManifest(join(root, "package.json"));
  writeManifest(target, {
    ...{ name, version: TUTTI_RELEASE, description },
    ...common(["batching", "gpu", "serving"]),
    engines: { node: ">=18" },
    bin: { tutti: "infra/setup/tutti.mjs" },
    dependencies: dependenciesOf(root, target),
  });
  for (const file of [...LAUNCHER, ...DASHBOARDS, "LICENSE", "CHANGELOG.md"]) copy(root, target, file);
  copyFileSync(join(root, "infra/release/tutti.md"), join(target, "README.md"));
  writeFileSync(join(target, "lib/release.json"), `${JSON.stringify({ version: TUTTI_RELEASE })}\n`);
  writeFileSync(join(target, "THIRD-PARTY-LICENSES.txt"), licencesOf(root));
  // Node strips no types in node_modules: the demo's pipeline names the bundle of its functions instead.
  const pipeline = join(target, "packages/pipeline-ocr");
  const text = readFileSync(join(pipeline, "ocr.yaml"), "utf8");
  writeFileSync(join(pipeline, "ocr.yaml"), text.replaceAll("./src/steps.ts#", "./src/steps.js#"));
  mkdirSync(join(pipeline, "src"));
  writeFileSync(join(pipeline, "src/steps.js"), 'export * from "../../../lib/ocr-steps.js";\n');
}

const common = (keywords: readonly string[]) => ({
  keywords: ["inference", "onnx", "latency", "slo", ...keywords],
  license: "Apache-2.0",
  type: "module",
  publishConfig: { access: "public", provenance: true },
});

/**
 * The npm packages that the bundles import, at the versions of the workspaces. What draws is a tool to a clone, which
 * completes itself; a published package must bring it.
 */
export function dependenciesOf(root: string, target: string): Record<string, string> {
  const code = readdirSync(join(target, "lib")).map((file) => readFileSync(join(target, "lib", file), "utf8"));
  const manifests = globSync("{packages,services}/*/package.json", { cwd: root }).map((file) =>
    readManifest(join(root, file)),
  );
  const all = manifests.flatMap(({ dependencies = {}, devDependencies = {} }) =>
    Object.entries({ ...devDependencies, ...dependencies }),
  );
  const used = all.filter(
    ([name]) =>
      !name.startsWith("@tutti/") &&
      !BUNDLED.lib.includes(name) &&
      code.some((text) => new RegExp(`"${name}["/]`).test(text)),
  );
  return Object.fromEntries(used.sort(([a], [b]) => (a < b ? -1 : 1)));
}

function licencesOf(root: string): string {
  const texts = Object.entries(BUNDLED).flatMap(([place, names]) =>
    names.map((name) => {
      const folder = join(root, "node_modules", name);
      const { version } = readManifest(join(folder, "package.json"));
      const files = globSync("{LICENSE,NOTICE}*", { cwd: folder }).sort();
      const words = files.map((file) => readFileSync(join(folder, file), "utf8").trim()).join("\n\n");
      return `${name} ${version}, in ${place}\n\n${words}\n`;
    }),
  );
  return texts.join(`\n${"-".repeat(80)}\n\n`);
}

function copy(root: string, target: string, file: string): void {
  mkdirSync(join(target, dirname(file)), { recursive: true });
  cpSync(join(root, file), join(target, dirname(file), basename(file)));
}

const readManifest = (file: string): Manifest => JSON.parse(readFileSync(file, "utf8")) as Manifest;

const writeManifest = (target: string, manifest: object): void =>
  writeFileSync(join(target, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
