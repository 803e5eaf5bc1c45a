/**
 * The setup's interface to the machine, in one object. Tests can imitate a machine without apt, go or npm. Plain
 * JavaScript for Node 18 and newer without dependencies: it runs before anything is installed.
 */
import { spawn } from "node:child_process";
import { accessSync, constants, readFileSync, statSync } from "node:fs";
import { posix, win32 } from "node:path";
import { say } from "./progress.mjs";

/**
 * @typedef {{ code: number, stdout: string, stderr: string }} Finished - `code` is 127 where the command doesn't exist
 * @typedef {{ cwd?: string, env?: Record<string, string | undefined>, timeoutMs?: number }} RunOptions
 * @typedef {object} Host
 * @property {Record<string, string | undefined>} env
 * @property {string} platform - as process.platform
 * @property {string} arch - as process.arch
 * @property {string} nodeVersion - of the running Node, "20.20.2"
 * @property {string} nodePath - of the running Node
 * @property {number | undefined} uid - 0 is root; undefined on Windows
 * @property {(path: string) => boolean} isExecutable
 * @property {(command: string, args: string[], options?: RunOptions) => Promise<Finished>} run
 * @property {(url: string) => Promise<Uint8Array>} download - throws with the reason
 * @property {(line: string) => void} say - progress, for people
 */

const OUTPUT_CHARS_MAX = 64 * 1024; // the end of the output says what went wrong

/** @returns {Host} */
export function thisHost() {
  return {
    env: process.env,
    platform: process.platform,
    arch: process.arch,
    nodeVersion: process.versions.node,
    nodePath: process.execPath,
    uid: process.getuid?.(),
    isExecutable,
    run,
    download,
    say,
  };
}

/** @param {string} path */
function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/**
 * Commands that run. None outlives the setup, such as a build of minutes.
 *
 * @type {Set<import("node:child_process").ChildProcess>}
 */
const running = new Set();
process.once("exit", () => running.forEach((child) => void child.kill()));

/** @type {Host["run"]} */
function run(command, args, options = {}) {
  return new Promise((resolve) => {
    const shell = process.platform === "win32" && /\.(cmd|bat)$/.test(command);
    const child = spawn(command, args, {
      cwd: options.cwd,
      env: options.env ?? process.env,
      timeout: options.timeoutMs ?? 15 * 60_000,
      stdio: ["ignore", "pipe", "pipe"],
      shell,
    });
    running.add(child);
    const finished = { code: 1, stdout: "", stderr: "" };
    child.stdout.on("data", (chunk) => (finished.stdout = (finished.stdout + chunk).slice(-OUTPUT_CHARS_MAX)));
    child.stderr.on("data", (chunk) => (finished.stderr = (finished.stderr + chunk).slice(-OUTPUT_CHARS_MAX)));
    child.on("error", (error) => resolve({ ...finished, code: 127, stderr: error.message }));
    child.on("close", (code, signal) => {
      running.delete(child);
      if (signal !== null) finished.stderr += `\nended by ${signal}`;
      resolve({ ...finished, code: code ?? 1 });
    });
  });
}

/** @type {Host["download"]} */
async function download(url) {
  const answer = await fetch(url, { redirect: "follow", signal: AbortSignal.timeout(5 * 60_000) });
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}`);
  return new Uint8Array(await answer.arrayBuffer());
}

/**
 * The first executable of this name on a search path.
 *
 * @param {Host} host @param {string} name @param {string[]} folders @returns {string | undefined}
 */
export function findExecutable(host, name, folders) {
  const suffixes = host.platform === "win32" ? [".exe", ".cmd"] : [""];
  for (const folder of folders) {
    if (folder === "") continue;
    for (const suffix of suffixes) {
      const path = pathsOf(host).join(folder, name + suffix);
      if (host.isExecutable(path)) return path;
    }
  }
  return undefined;
}

/** @param {Host} host */
const pathsOf = (host) => (host.platform === "win32" ? win32 : posix);

/** @param {Host} host @returns {string[]} */
export const searchPath = (host) => (host.env["PATH"] ?? host.env["Path"] ?? "").split(pathsOf(host).delimiter);

/** @param {number[]} left @param {number[]} right @returns {number} - negative where `left` is older */
export function compareVersions(left, right) {
  for (let i = 0; i < 3; i++) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/**
 * The first x.y or x.y.z in a text: "nats-server: v2.9.10" is [2, 9, 10].
 *
 * @param {string} text @returns {number[] | undefined}
 */
export function parseVersion(text) {
  const match = /(\d+)\.(\d+)(?:\.(\d+))?/.exec(text);
  return match === null ? undefined : [Number(match[1]), Number(match[2]), Number(match[3] ?? 0)];
}

/** The last lines of a failed command, for an error message. @param {Finished} finished @returns {string} */
export const lastWords = (finished) =>
  `${finished.stdout}\n${finished.stderr}`
    .split("\n")
    .filter((line) => line.trim() !== "")
    .slice(-6)
    .join("\n  ");

/** @param {string} path @returns {any} - undefined where there is no readable JSON */
export function readJson(path) {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return undefined;
  }
}
