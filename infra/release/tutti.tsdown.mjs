/** Builds tutti: the command, and every role, thread and process that it starts, in bundles that share their chunks. */
import { join } from "node:path";
import { filesBeside } from "./files-beside.mjs";

const root = join(import.meta.dirname, "../..");
const target = join(root, "dist/tutti");
const OURS = /^@tutti\//;
const CHARTS = /^(?:echarts|zrender|tslib)(?:\/|$)/;

export default {
  cwd: root,
  entry: { main: "packages/cli/src/main.ts", "ocr-steps": "packages/pipeline-ocr/src/steps.ts" },
  outDir: join(target, "lib"),
  format: "esm",
  platform: "node",
  target: "node22",
  fixedExtension: false,
  // Charts take one of the 68 MB of echarts: that is bundled, and the script for its page copied.
  deps: { alwaysBundle: [OURS, CHARTS], neverBundle: [/^(?!@tutti\/|(?:echarts|zrender|tslib)(?:\/|$))[^./]/] },
  plugins: [filesBeside(root, target)],
  dts: false,
  inputOptions: { checks: { pluginTimings: false } },
  report: false,
  logLevel: "warn",
  failOnWarn: true,
};
