/** Builds tutti: the command, and every role, thread and process that it starts, in bundles that share their chunks. */
import { join } from "node:path";
import { filesBeside } from "./files-beside.mjs";

const root = join(import.meta.dirname, "../..");
const target = join(root, "dist/tutti");

export default {
  cwd: root,
  entry: { main: "packages/cli/src/main.ts", "ocr-steps": "packages/pipeline-ocr/src/steps.ts" },
  outDir: join(target, "lib"),
  format: "esm",
  platform: "node",
  target: "node22",
  fixedExtension: false,
  deps: { alwaysBundle: [/^@tutti\//], neverBundle: [/^(?!@tutti\/)[^./]/] },
  plugins: [filesBeside(root, target)],
  dts: false,
  inputOptions: { checks: { pluginTimings: false } },
  report: false,
  logLevel: "warn",
  failOnWarn: true,
};
