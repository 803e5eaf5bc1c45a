/**
 * Installs node_modules as package-lock.json demands: all of it, or what production needs (`npm start`), which leaves
 * out what only tests, checks and figures use. There are three ways to be up to date, cheapest first:
 *   - the stamp of the last installation carries the lockfile's hash;
 *   - npm's own record of the installation (node_modules/.package-lock.json) has every version of the lockfile;
 *   - `npm ci` has just run (nothing was there), or `npm install` has (something else was installed: that changes
 *     only the packages that differ, so a system that runs from this folder keeps the files it may still load).
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { lastWords, readJson } from "./host.mjs";
import { npmCommand, npmEnvironment } from "./npm.mjs";
import { SetupError, step } from "./progress.mjs";

/**
 * @typedef {{ version?: string, link?: boolean, dev?: boolean, optional?: boolean, peer?: boolean }} LockEntry
 * @typedef {{ packages?: Record<string, LockEntry> }} Lockfile
 * @typedef {"production" | "all"} Extent
 */

/** @param {string} root @param {string} state @param {Extent} extent */
export function dependencies(root, state, extent) {
  const stampFile = join(state, "dependencies.json");
  const beginFile = join(state, "dependencies.begun");
  const recordFile = join(root, "node_modules", ".package-lock.json");
  const hash = () =>
    createHash("sha256")
      .update(readFileSync(join(root, "package-lock.json")))
      .digest("hex");
  const lockfile = () => readJson(join(root, "package-lock.json"));

  /** @returns {"fresh" | "unstamped" | "changed" | "missing"} */
  const check = () => {
    if (existsSync(beginFile) || !existsSync(recordFile)) return "missing"; // or cut short half way: same remedy
    const stamp = readJson(stampFile);
    if (stamp?.sha256 === hash() && (extent === "production" || stamp.extent === "all")) return "fresh";
    return satisfies(readJson(recordFile), lockfile(), extent) ? "unstamped" : "changed";
  };
  const stamp = () => {
    const whole = satisfies(readJson(recordFile), lockfile(), "all");
    writeFileSync(stampFile, JSON.stringify({ sha256: hash(), extent: whole ? "all" : "production" }));
  };

  /** @param {import("./host.mjs").Host} host */
  const install = async (host) => {
    const found = check();
    if (found === "fresh") return;
    if (found === "unstamped") return stamp();
    const how = found === "missing" ? ["ci"] : ["install", "--no-save"];
    // A contributor's `npm start` after a pull must not remove the tools that are installed.
    const keepsTools = found === "changed" && hasTools(readJson(recordFile));
    const tools = extent === "all" || keepsTools ? "--include" : "--omit";
    await step(host.say, `installing dependencies (npm ${how[0]}, half a minute)`, async () => {
      writeFileSync(beginFile, "");
      const [command, ...args] = npmCommand(host);
      const options = ["--prefix", root, "--no-audit", "--no-fund", "--loglevel", "error", tools, "dev"];
      const env = npmEnvironment(host.env);
      const done = await host.run(command, [...args, ...how, ...options], { cwd: root, env });
      if (done.code !== 0) {
        throw new SetupError(`npm ${how[0]} failed; mend this and start again:\n  ${lastWords(done)}`);
      }
      removeForeignRuntimes(join(root, "node_modules/onnxruntime-node"), host);
      stamp();
      rmSync(beginFile);
    });
  };
  return { check, install };
}

/**
 * Whether npm has installed every version that the lockfile asks for. Packages for other platforms may be absent.
 *
 * @param {Lockfile | undefined} record @param {Lockfile | undefined} lockfile @param {Extent} extent
 * @returns {boolean}
 */
export function satisfies(record, lockfile, extent) {
  if (record?.packages === undefined || lockfile?.packages === undefined) return false;
  for (const [path, wanted] of Object.entries(lockfile.packages)) {
    if (!path.includes("node_modules/")) continue; // the root and the workspaces themselves
    if (extent === "production" && wanted.dev === true) continue;
    const present = record.packages[path];
    if (present === undefined ? wanted.optional !== true : present.version !== wanted.version) return false;
  }
  return true;
}

/** @param {Lockfile | undefined} record */
const hasTools = (record) => Object.values(record?.packages ?? {}).some(({ dev }) => dev === true);

/**
 * Removes the ONNX runtimes of other systems. The package brings five, 290 MB together, and a machine loads its own.
 *
 * @param {string} folder @param {{ platform: string, arch: string }} host
 */
function removeForeignRuntimes(folder, { platform, arch }) {
  for (const path of foldersIn(join(folder, "bin")).flatMap(foldersIn).flatMap(foldersIn)) {
    if (!path.endsWith(join(platform, arch))) rmSync(path, { recursive: true, force: true });
  }
}

/** @param {string} folder @returns {string[]} */
function foldersIn(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => join(folder, entry.name));
}
