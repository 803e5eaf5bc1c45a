/**
 * Finds a real Jaeger (all-in-one, traces in memory) for this machine, or brings one by whichever way the machine
 * allows. The version is always the same. `TUTTI_JAEGER` names the one to use; `TUTTI_JAEGER_SOURCES` (a list of the
 * names in `sources`) narrows the ways.
 *
 * Plain JavaScript for Node 18 and newer without dependencies: `npm start -- --jaeger` calls it before anything else
 * runs.
 */
import { createHash } from "node:crypto";
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { compareVersions, findExecutable, lastWords, parseVersion, readJson, searchPath } from "../setup/host.mjs";
import { SetupError, step } from "../setup/progress.mjs";

/** The last version whose all-in-one is a program by itself, with the flags that `tutti up` gives it. */
export const VERSION = "1.76.0";
const GO_MIN = [1, 25];
const MODULE = "github.com/jaegertracing/jaeger";
const IMAGE = `jaegertracing/all-in-one:${VERSION}`;
/** Compiling takes a minute on two cores, and longer where they have other work. */
const BUILD_MS = 40 * 60_000;
const PULL_MS = 10 * 60_000;

/**
 * @typedef {{ path: string, source: string, hasPage: boolean }} Jaeger - `hasPage`: false for one that go built, which
 *   has its API only
 * @typedef {import("../setup/host.mjs").Host} Host
 * @typedef {(host: Host, state: string) => Promise<Jaeger>} Bring - throws with the reason
 */

/** @type {Record<string, { label: string, bring: Bring }>} */
const bringers = {
  release: { label: "from the project's releases", bring: bringByRelease },
  container: { label: "as a container", bring: bringByContainer },
  go: { label: "by go build", bring: bringByGo },
};

/** Every way to a Jaeger, in the order in which they are tried. */
export const sources = ["cache", "path", ...Object.keys(bringers)];

/** @param {Host} host @returns {string[]} */
function chosenSources(host) {
  const named = (host.env["TUTTI_JAEGER_SOURCES"] ?? "")
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
  const unknown = named.filter((name) => !sources.includes(name));
  if (unknown.length > 0) throw new SetupError(`TUTTI_JAEGER_SOURCES: ${unknown} is none of ${sources.join(", ")}`);
  return named.length > 0 ? named : sources;
}

/**
 * Finds an installed Jaeger; it brings nothing, and takes no time.
 *
 * @param {Host} host @param {string} state - the folder for downloads @returns {Jaeger | undefined}
 */
export function findJaeger(host, state) {
  const named = host.env["TUTTI_JAEGER"];
  const brought = readJson(join(state, "jaeger.json"));
  if (named !== undefined && named !== "") {
    const hasPage = brought?.path === named ? brought.hasPage === true : true;
    if (host.isExecutable(named)) return { path: named, source: "TUTTI_JAEGER", hasPage };
    throw new SetupError(`TUTTI_JAEGER is ${named}, which can't be run: name the executable of jaeger-all-in-one`);
  }
  for (const source of chosenSources(host)) {
    const kept = source === "cache" ? brought : undefined;
    if (kept?.version === VERSION && typeof kept.path === "string" && host.isExecutable(kept.path))
      return { path: kept.path, source: `cache, ${kept.source}`, hasPage: kept.hasPage === true };
    const path = source === "path" ? findExecutable(host, "jaeger-all-in-one", searchPath(host)) : undefined;
    if (path !== undefined) return { path, source, hasPage: true };
  }
  return undefined;
}

/**
 * Brings a Jaeger, trying every way that is left. The caller holds the setup lock.
 *
 * @param {Host} host @param {string} state @returns {Promise<Jaeger>}
 */
export async function bringJaeger(host, state) {
  mkdirSync(join(state, "bin"), { recursive: true });
  const reasons = [];
  for (const source of chosenSources(host)) {
    const bringer = bringers[source];
    if (bringer === undefined) continue;
    try {
      const brought = await bringer.bring(host, state);
      const file = join(state, "jaeger.json");
      writeFileSync(`${file}.${process.pid}`, `${JSON.stringify({ ...brought, version: VERSION })}\n`);
      renameSync(`${file}.${process.pid}`, file);
      return brought;
    } catch (error) {
      reasons.push(`${bringer.label}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  throw new SetupError(
    `No Jaeger ${VERSION} could be had:\n  ${reasons.join("\n  ")}\n` +
      "Put jaeger-all-in-one on the PATH or name it in TUTTI_JAEGER; or run a Jaeger elsewhere and give its address to --otlp.",
  );
}

/** @param {string} reason @returns {never} */
function notHere(reason) {
  throw new Error(reason);
}

/** Brings the released program, with its page; its checksum is verified. @type {Bring} */
async function bringByRelease(host, state) {
  const system = { linux: "linux", darwin: "darwin" }[host.platform];
  const machine = { x64: "amd64", arm64: "arm64" }[host.arch];
  if (system === undefined || machine === undefined) return notHere(`no release for ${host.platform} on ${host.arch}`);
  const base = `https://github.com/jaegertracing/jaeger/releases/download/v${VERSION}`;
  const folderName = `jaeger-${VERSION}-${system}-${machine}`;
  return await step(host.say, `downloading Jaeger ${VERSION} (its release, with its page)`, async () => {
    const sums = new TextDecoder().decode(await host.download(`${base}/${folderName}.sha256sum.txt`));
    const archive = await host.download(`${base}/${folderName}.tar.gz`);
    const expected = expectedSum(sums, `${folderName}.tar.gz`);
    const actual = createHash("sha256").update(archive).digest("hex");
    if (expected !== actual) throw new Error(`it has sha256 ${actual}, and the release says ${expected}`);
    const folder = emptied(join(state, "jaeger-release"));
    writeFileSync(join(folder, "jaeger.tar.gz"), archive);
    const done = await host.run("tar", ["-xzf", "jaeger.tar.gz", "--strip-components", "1"], { cwd: folder });
    if (done.code !== 0) throw new Error(lastWords(done));
    const path = keep(join(folder, "jaeger-all-in-one"), state);
    rmSync(folder, { recursive: true, force: true });
    return { path, source: "release", hasPage: true };
  });
}

/**
 * The checksum of one file in the text of `sha256sum`, whose names may have a folder.
 *
 * @param {string} sums @param {string} name
 */
export const expectedSum = (sums, name) =>
  sums
    .split("\n")
    .map((line) => line.trim().split(/\s+\*?/))
    .find((parts) => parts[1]?.split("/").at(-1) === name)?.[0];

/**
 * Writes a script that runs the image as if it were the program. The container uses the host's network, so that the
 * flags' loopback is the machine's.
 *
 * @type {Bring}
 */
async function bringByContainer(host, state) {
  if (host.platform !== "linux") return notHere("the host's network, which keeps it on loopback, is Linux' only");
  for (const name of ["docker", "podman"]) {
    const tool = findExecutable(host, name, searchPath(host));
    if (tool === undefined) continue;
    const asked = await host.run(tool, ["info"], { timeoutMs: 20_000 });
    if (asked.code !== 0) continue;
    return await step(host.say, `pulling ${IMAGE} with ${name}`, async () => {
      const done = await host.run(tool, ["pull", IMAGE], { timeoutMs: PULL_MS });
      if (done.code !== 0) throw new Error(lastWords(done));
      const path = join(state, "bin", `jaeger-${VERSION}`);
      writeFileSync(`${path}.new`, containerScript(tool));
      chmodSync(`${path}.new`, 0o755);
      renameSync(`${path}.new`, path);
      return { path, source: "container", hasPage: true };
    });
  }
  return notHere("neither docker nor podman answers here");
}

/** @param {string} tool */
export const containerScript = (tool) =>
  `#!/bin/sh\nexec '${tool}' run --rm --network host -e OTEL_TRACES_SAMPLER=always_off ${IMAGE} "$@"\n`;

/** The file of the module that lists its storages. */
export const STORAGES = "internal/storage/v1/factory/factory.go";
const UNUSED_STORAGES = "badger|cassandra|elasticsearch|grpc|kafka";

/**
 * The list of storages without those that `tutti up` doesn't use: it keeps traces in memory. The drivers of the others
 * are more than half of the 1,707 packages that the program is built from.
 *
 * @param {string} source
 */
export function memoryOnly(source) {
  const imports = new RegExp(`^\\t(es )?"${MODULE}/internal/storage/v1/(${UNUSED_STORAGES})"\\n`, "gm");
  const cases = new RegExp(`^\\tcase (${UNUSED_STORAGES})StorageType.*:\\n\\t\\treturn .*\\n`, "gm");
  return source.replace(imports, "").replace(cases, "");
}

/**
 * Builds the program from its module as the main module: it has replacements, which `go install` refuses. The sources
 * of its page are no part of the module.
 *
 * @type {Bring}
 */
async function bringByGo(host, state) {
  const go = findExecutable(host, "go", [...searchPath(host), "/usr/local/go/bin"]);
  if (go === undefined) return notHere("there is no go here");
  const version = parseVersion((await host.run(go, ["env", "GOVERSION"], { timeoutMs: 10_000 })).stdout) ?? [];
  if (compareVersions(version, GO_MIN) < 0)
    return notHere(`go ${version.join(".")} is too old: ${GO_MIN.join(".")} or newer builds it`);
  const what = `building Jaeger ${VERSION} with go ${version.join(".")} (once; one to three minutes, no page)`;
  return await step(host.say, what, async () => {
    const env = { ...host.env, GOTOOLCHAIN: "local", GOFLAGS: "-trimpath", CGO_ENABLED: "0" };
    const loaded = await host.run(go, ["mod", "download", "-json", `${MODULE}@v${VERSION}`], { env, cwd: state });
    if (loaded.code !== 0) throw new Error(lastWords(loaded));
    const { Dir: module } = JSON.parse(loaded.stdout);
    const folder = join(state, "jaeger-source");
    discard(folder);
    try {
      cpSync(module, folder, { recursive: true });
      const storages = join(folder, STORAGES);
      const source = readFileSync(storages, "utf8");
      rmSync(storages); // files in Go's cache are read-only
      writeFileSync(storages, memoryOnly(source));
      const args = ["build", "-ldflags", "-s -w", "-o", "jaeger-all-in-one", "./cmd/all-in-one"];
      const built = await host.run(...politely(host, go, args), { env, cwd: folder, timeoutMs: BUILD_MS });
      if (built.code !== 0) throw new Error(lastWords(built));
      return { path: keep(join(folder, "jaeger-all-in-one"), state), source: "go", hasPage: false };
    } finally {
      discard(folder);
    }
  });
}

/**
 * The command at low priority, so that other work on the machine goes first.
 *
 * @param {Host} host @param {string} command @param {string[]} args @returns {[string, string[]]}
 */
const politely = (host, command, args) =>
  host.platform === "win32" ? [command, args] : ["nice", ["-n", "15", command, ...args]];

/** @param {string} folder */
const discard = (folder) => rmSync(folder, { recursive: true, force: true });

/** @param {string} folder */
function emptied(folder) {
  discard(folder);
  mkdirSync(folder, { recursive: true });
  return folder;
}

/**
 * Moves the binary to its place by a rename, so that nobody ever sees half a file. @param {string} path @param {string}
 * state
 */
function keep(path, state) {
  if (!existsSync(path)) throw new Error("it holds no jaeger-all-in-one");
  const kept = join(state, "bin", `jaeger-${VERSION}`);
  chmodSync(path, 0o755);
  renameSync(path, kept);
  return kept;
}
