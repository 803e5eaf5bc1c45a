/** The setup's calls of npm: the npm that started it, else the one on the path. */
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { lastWords } from "./host.mjs";
import { SetupError } from "./progress.mjs";

/** @param {import("./host.mjs").Host} host @returns {[string, ...string[]]} */
export function npmCommand(host) {
  const started = host.env["npm_execpath"];
  // Under `npm start` that is npm's own script; pnpm and yarn put theirs there too, and neither reads our lockfile.
  if (started !== undefined && /npm-cli\.c?js$/.test(started)) return [host.nodePath, started];
  return [host.platform === "win32" ? "npm.cmd" : "npm"];
}

/**
 * The environment for an npm inside an npm. Settings of the outer run (its folder, its script, a chosen workspace, a
 * dry run) must not reach the inner one; its sources (registry, proxy, certificates) must.
 *
 * @param {Record<string, string | undefined>} env
 * @returns {Record<string, string | undefined>}
 */
export function npmEnvironment(env) {
  /** @type {Record<string, string | undefined>} */
  const clean = { ONNXRUNTIME_NODE_INSTALL: "skip", NX_DAEMON: "false" };
  const outer =
    /^npm_(package_|lifecycle_|command$|node_execpath$|config_(local_prefix|prefix|global|workspace|workspaces|include_workspace_root|dry_run|package_lock|omit|only|production|save)$)/i;
  for (const [name, value] of Object.entries(env)) if (!outer.test(name)) clean[name] = value;
  if (env["NODE_ENV"] === "production") delete clean["NODE_ENV"]; // npm would leave out the tools that the tests need
  return clean;
}

/**
 * Installs one package in a folder of its own, without running its scripts.
 *
 * @param {import("./host.mjs").Host} host @param {string} folder - emptied @param {string} wanted - name@version
 * @returns {Promise<string>} the package's folder
 */
export async function installed(host, folder, wanted) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), '{"private":true}\n');
  const [command, ...args] = npmCommand(host);
  const options = ["--prefix", folder, "--no-save", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"];
  const done = await host.run(command, [...args, "install", ...options, "--loglevel", "error", wanted], {
    cwd: folder,
    env: npmEnvironment(host.env),
  });
  const home = join(folder, "node_modules", wanted.slice(0, wanted.lastIndexOf("@")));
  if (done.code === 0 && existsSync(home)) return home;
  rmSync(folder, { recursive: true, force: true });
  throw new SetupError(`npm could not bring ${wanted}: ${lastWords(done)}`);
}
