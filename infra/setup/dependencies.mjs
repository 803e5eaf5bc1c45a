/**
 * Installs node_modules as package-lock.json demands. There are three ways to be up to date, cheapest first:
 *   - the stamp of the last installation carries the lockfile's hash;
 *   - npm's own record of the installation (node_modules/.package-lock.json) has every version of the lockfile;
 *   - `npm ci` has just run (nothing was there), or `npm install` has (another lockfile was installed: that changes
 *     only the packages that differ, so a system that runs from this folder keeps the files it may still load).
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { lastWords, readJson } from "./host.mjs";
import { npmCommand, npmEnvironment } from "./npm.mjs";
import { SetupError, step } from "./progress.mjs";

/**
 * @typedef {{ version?: string, link?: boolean, optional?: boolean, peer?: boolean }} LockEntry
 * @typedef {{ packages?: Record<string, LockEntry> }} Lockfile
 */

/** @param {string} root @param {string} state */
export function dependencies(root, state) {
  const stampFile = join(state, "dependencies.json");
  const beginFile = join(state, "dependencies.begun");
  const recordFile = join(root, "node_modules", ".package-lock.json");
  const hash = () =>
    createHash("sha256")
      .update(readFileSync(join(root, "package-lock.json")))
      .digest("hex");

  /** @returns {"fresh" | "unstamped" | "changed" | "missing"} */
  const check = () => {
    if (existsSync(beginFile) || !existsSync(recordFile)) return "missing"; // or cut short half way: same remedy
    if (readJson(stampFile)?.sha256 === hash()) return "fresh";
    return satisfies(readJson(recordFile), readJson(join(root, "package-lock.json"))) ? "unstamped" : "changed";
  };
  const stamp = () => writeFileSync(stampFile, JSON.stringify({ sha256: hash() }));

  /** @param {import("./host.mjs").Host} host */
  const install = async (host) => {
    const found = check();
    if (found === "fresh") return;
    if (found === "unstamped") return stamp();
    const how = found === "missing" ? ["ci"] : ["install", "--no-save"];
    await step(host.say, `installing dependencies (npm ${how[0]}, half a minute)`, async () => {
      writeFileSync(beginFile, "");
      const [command, ...args] = npmCommand(host);
      const options = ["--prefix", root, "--no-audit", "--no-fund", "--loglevel", "error", "--include", "dev"];
      const env = npmEnvironment(host.env);
      const done = await host.run(command, [...args, ...how, ...options], { cwd: root, env });
      if (done.code !== 0) {
        throw new SetupError(`npm ${how[0]} failed; mend this and start again:\n  ${lastWords(done)}`);
      }
      stamp();
      rmSync(beginFile);
    });
  };
  return { check, install };
}

/**
 * Whether npm has installed every version that the lockfile asks for. Packages for other platforms may be absent.
 *
 * @param {Lockfile | undefined} record @param {Lockfile | undefined} lockfile @returns {boolean}
 */
export function satisfies(record, lockfile) {
  if (record?.packages === undefined || lockfile?.packages === undefined) return false;
  for (const [path, wanted] of Object.entries(lockfile.packages)) {
    if (!path.includes("node_modules/")) continue; // the root and the workspaces themselves
    const present = record.packages[path];
    if (present === undefined ? wanted.optional !== true : present.version !== wanted.version) return false;
  }
  return true;
}
