/**
 * Lints the whole repository in one process: `npm run lint [-- --fix] [folder or file …]`. Without folders it also
 * looks for files and exports that nothing uses (knip.json).
 */
import { spawn, spawnSync } from "node:child_process";
import { join } from "node:path";
import { computeProjectGraph, root, SKIPPED } from "./project-graph.mjs";

const removeGraph = await computeProjectGraph();
const options = process.argv.slice(2).filter((argument) => argument.startsWith("-"));
const patterns = process.argv.slice(2).filter((argument) => !argument.startsWith("-"));
const eslint = join(root, "node_modules/eslint/bin/eslint.js");
const args = [eslint, "--no-error-on-unmatched-pattern", "--max-warnings", "0", ...options];
const child = spawn(process.execPath, [...args, ...(patterns.length > 0 ? patterns : ["."])], {
  cwd: root,
  stdio: ["ignore", "pipe", "inherit"],
});

let output = "";
child.stdout.on("data", (chunk) => {
  output += chunk;
  process.stdout.write(chunk);
});
child.on("close", (code) => {
  removeGraph();
  const skipped = output.includes(SKIPPED);
  if (skipped) console.log("The boundaries were not checked: nx's project graph could not be read.");
  // nx leaves handles open that would delay the exit for seconds.
  process.exit(skipped || !isUsed() ? 1 : (code ?? 1));
});

/** Whether everything that is exported is used; knip prints the rest. */
function isUsed() {
  if (patterns.length > 0) return true;
  const knip = join(root, "node_modules/knip/bin/knip.js");
  const found = spawnSync(process.execPath, [knip, "--reporter", "compact", "--no-config-hints"], {
    cwd: root,
    stdio: ["ignore", "inherit", "inherit"],
  });
  return found.status === 0;
}
