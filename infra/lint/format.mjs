/** Completes the packages' manifests and formats: `npm run format [-- folder or file …]`. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import "./manifests.mjs";
import { root } from "./project-graph.mjs";

const prettier = join(root, "node_modules/prettier/bin/prettier.cjs");
const paths = process.argv.length > 2 ? process.argv.slice(2) : ["."];
const { status } = spawnSync(process.execPath, [prettier, "--write", "--log-level", "warn", ...paths], {
  cwd: root,
  stdio: "inherit",
});
process.exit(status ?? 1);
