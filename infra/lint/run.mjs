/**
 * Lints the whole repository in one process: `npm run lint [-- --fix] [folder or file …]`.
 *
 * `@nx/enforce-module-boundaries` reads nx's cached project graph and skips itself, with no more than a warning, where
 * there is none. So the graph is computed first, every time: a package that was added a minute ago is in it.
 */
import { createProjectGraphAsync } from "@nx/devkit";
import { ESLint } from "eslint";

process.env["NX_DAEMON"] = "false";
const root = new URL("../..", import.meta.url).pathname;
process.chdir(root);

await createProjectGraphAsync({ exitOnError: true, resetDaemonClient: false });
const fix = process.argv.includes("--fix");
const eslint = new ESLint({ cwd: root, errorOnUnmatchedPattern: false, fix });
const patterns = process.argv.slice(2).filter((argument) => argument !== "--fix");
const results = await eslint.lintFiles(patterns.length > 0 ? patterns : ["."]);
if (fix) await ESLint.outputFixes(results);
const formatter = await eslint.loadFormatter("stylish");
const text = await formatter.format(results);
if (text !== "") console.log(text);

const problems = results.reduce((sum, result) => sum + result.errorCount + result.warningCount, 0);
process.exit(problems === 0 ? 0 : 1); // nx leaves handles open that would keep the process for seconds
