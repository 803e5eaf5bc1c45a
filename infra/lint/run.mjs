/** Lints the whole repository in one process: `npm run lint [-- --fix] [folder or file …]`. */
import { spawn } from "node:child_process";
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
  process.exit(skipped ? 1 : (code ?? 1)); // nx leaves handles open that would keep the process for seconds
});
