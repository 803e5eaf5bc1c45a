/** Builds @tutti/client: one ES module and one declaration file, with the packages of this repository inside. */
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");

export default {
  cwd: root,
  entry: { index: "packages/client/src/index.ts" },
  outDir: join(root, "dist/client/lib"),
  format: "esm",
  platform: "node",
  target: "node20",
  fixedExtension: false,
  deps: { alwaysBundle: [/^@tutti\//], neverBundle: [/^(?!@tutti\/)[^./]/] },
  treeshake: { moduleSideEffects: false },
  dts: { tsconfig: join(root, "infra/release/tsconfig.client.json"), sourcemap: false },
  inputOptions: { checks: { pluginTimings: false } },
  report: false,
  logLevel: "warn",
  failOnWarn: true,
};
