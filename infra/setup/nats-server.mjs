/**
 * Finds a nats-server for this machine, or brings one by whichever way the machine allows (nats-sources.mjs). One on
 * the PATH comes first: its owner has chosen it. `TUTTI_NATS_SERVER` names the one to use. `TUTTI_NATS_SOURCES` (a list
 * of the names in `sources`, in the order to try) narrows the ways, as CI does to test another version; what is found
 * then is kept apart, and the next start without it is as if it had not been.
 */
import { statSync, renameSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { compareVersions, findExecutable, parseVersion, readJson, searchPath } from "./host.mjs";
import { bringers, findGo } from "./nats-sources.mjs";
import { SetupError } from "./progress.mjs";

/** Oldest version with the JetStream behaviour that the packages rely on: Debian 12's. */
const VERSION_MIN = [2, 9, 10];
/** Older ones work, with faults that this one and newer ones don't have (infra/README.md). */
const VERSION_GOOD = [2, 10, 0];

/**
 * @typedef {{ path: string, version: string, source: string }} NatsServer
 * @typedef {import("./host.mjs").Host} Host
 */

/** Every way to a nats-server, in the order in which they are tried. */
export const sources = ["path", "cache", ...Object.keys(bringers)];

const isNarrowed = (/** @type {Host} */ host) => (host.env["TUTTI_NATS_SOURCES"] ?? "").trim() !== "";

/** @param {Host} host @returns {string[]} */
function chosenSources(host) {
  if (!isNarrowed(host)) return sources;
  const named = String(host.env["TUTTI_NATS_SOURCES"])
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
  const unknown = named.filter((name) => !sources.includes(name));
  if (unknown.length > 0) throw new SetupError(`TUTTI_NATS_SOURCES: ${unknown} is none of ${sources.join(", ")}`);
  return named;
}

/** Where a brought server is kept. @param {Host} host @param {string} state @param {string} source */
const keptIn = (host, state, source) => (isNarrowed(host) ? join(state, "bin", source) : join(state, "bin"));

/**
 * Finds an installed nats-server. It is the one that is named, one on the path (or where packages put it, often outside
 * a user's path), or one that an earlier setup brought.
 *
 * @param {Host} host @param {string} state @returns {Promise<NatsServer | undefined>}
 */
export async function findNatsServer(host, state) {
  const named = host.env["TUTTI_NATS_SERVER"];
  if (named !== undefined && named !== "") {
    const version = await versionOf(host, named);
    if (fits(version)) return { path: named, version: version.join("."), source: "TUTTI_NATS_SERVER" };
    throw new SetupError(`TUTTI_NATS_SERVER is ${named}: ${whyNot(version)}`);
  }
  for (const source of chosenSources(host)) {
    const path = findExecutable(host, "nats-server", await foldersOf(source, host, state));
    const version = path === undefined ? undefined : await versionOf(host, path);
    if (path !== undefined && fits(version)) return { path, version: version.join("."), source };
  }
  return undefined;
}

/** @param {string} source @param {Host} host @param {string} state @returns {Promise<string[]>} */
async function foldersOf(source, host, state) {
  if (source === "path") return [...pathFolders(host), await goFolder(host)];
  if (source === "cache") return [join(state, "bin")];
  return isNarrowed(host) ? [keptIn(host, state, source)] : [];
}

/** @param {Host} host @returns {string[]} */
function pathFolders(host) {
  const usual = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin"];
  return [...searchPath(host), ...(host.platform === "win32" ? [] : usual)];
}

/** The folder in which `go install` puts binaries. @param {Host} host @returns {Promise<string>} */
async function goFolder(host) {
  const go = findGo(host);
  const gopath = go === undefined ? "" : (await host.run(go, ["env", "GOPATH"], { timeoutMs: 10_000 })).stdout.trim();
  return join(gopath === "" ? join(homedir(), "go") : gopath, "bin");
}

/** @param {Host} host @param {string} path @returns {Promise<number[] | undefined>} */
async function versionOf(host, path) {
  const answer = await host.run(path, ["--version"], { timeoutMs: 10_000 });
  return answer.code === 0 ? parseVersion(answer.stdout + answer.stderr) : undefined;
}

/** @param {number[] | undefined} version @returns {version is number[]} */
const fits = (version) => version !== undefined && compareVersions(version, VERSION_MIN) >= 0;

/** @param {number[] | undefined} version */
const whyNot = (version) =>
  version === undefined
    ? "it doesn't answer to --version"
    : `version ${version.join(".")} is older than ${VERSION_MIN.join(".")}`;

/**
 * Brings a nats-server, trying every way that is left. The caller holds the setup lock.
 *
 * @param {Host} host @param {string} state @returns {Promise<NatsServer>}
 */
export async function bringNatsServer(host, state) {
  const reasons = [];
  for (const source of chosenSources(host)) {
    const bringer = bringers[source];
    if (bringer === undefined) continue;
    try {
      const places = { state, bin: keptIn(host, state, source), path: pathFolders(host) };
      const path = await bringer.bring(host, places);
      const version = await versionOf(host, path);
      if (fits(version)) return { path, version: version.join("."), source };
      reasons.push(`${bringer.label}: ${whyNot(version)}`);
    } catch (error) {
      reasons.push(`${bringer.label}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  throw new SetupError(
    `No nats-server (${VERSION_MIN.join(".")} or newer) is here, and none could be had:\n  ${reasons.join("\n  ")}\n` +
      `Install one (${installAdvice(host.platform)}), put it on the PATH or name it in TUTTI_NATS_SERVER, and start again.`,
  );
}

/** @param {string} platform @returns {string} */
function installAdvice(platform) {
  const manual = "https://docs.nats.io/running-a-nats-service/introduction/installation";
  if (platform === "darwin") return `\`brew install nats-server\`, or ${manual}`;
  if (platform === "win32") return `\`choco install nats-server\` or \`scoop install nats-server\`, or ${manual}`;
  return manual;
}

/** @type {Record<string, string>} */
const origins = { path: "on the PATH", cache: "brought earlier", TUTTI_NATS_SERVER: "as TUTTI_NATS_SERVER says" };

/** Says which server is used and where it comes from. @param {NatsServer} server @returns {string} */
export function describeNatsServer({ path, version, source }) {
  const old =
    compareVersions(parseVersion(version) ?? [], VERSION_GOOD) < 0 ? "; 2.10 and newer lack faults that it has" : "";
  return `nats-server ${version}, ${origins[source] ?? bringers[source]?.label} (${path})${old}`;
}

/** Tells a file from another that was put in its place. @param {string} path */
const modifiedAt = (path) => statSync(path, { throwIfNoEntry: false })?.mtimeMs;

/**
 * The nats-server that an earlier setup found. It must be the same file still, nothing may ask for another, and none
 * may be on the path if it was brought, except the same file that did not fit then.
 *
 * @param {Host} host @param {string} state @returns {NatsServer | undefined}
 */
export function rememberedNatsServer(host, state) {
  if (host.env["TUTTI_NATS_SERVER"] || isNarrowed(host)) return undefined;
  const { modified, refused, ...server } = readJson(join(state, "nats-server.json")) ?? {};
  if (typeof server.path !== "string" || modified === undefined || modifiedAt(server.path) !== modified)
    return undefined;
  const onPath = findExecutable(host, "nats-server", pathFolders(host));
  if (onPath === undefined || onPath === server.path) return server;
  const isRefused =
    refused?.path === onPath && refused.modified !== undefined && refused.modified === modifiedAt(onPath);
  return isRefused ? server : undefined;
}

/** @param {Host} host @param {string} state @param {NatsServer} server */
export function rememberNatsServer(host, state, server) {
  if (host.env["TUTTI_NATS_SERVER"] || isNarrowed(host)) return;
  const file = join(state, "nats-server.json");
  const onPath = findExecutable(host, "nats-server", pathFolders(host));
  // The path comes first, so the one on it has been looked at, and did not fit.
  const refused =
    onPath === undefined || onPath === server.path ? undefined : { path: onPath, modified: modifiedAt(onPath) };
  const text = JSON.stringify({ ...server, modified: modifiedAt(server.path), refused });
  writeFileSync(`${file}.${process.pid}`, `${text}\n`);
  renameSync(`${file}.${process.pid}`, file);
}
