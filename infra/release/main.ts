/**
 * `npm run release [-- --dry-run]`: builds the published packages below dist/, packs them, and lets publint and attw
 * look at the tarballs. Without `--dry-run` it then publishes them, with provenance.
 */
import { mkdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { TUTTI_RELEASE } from "@tutti/protocol";
import { dependencies } from "../setup/dependencies.mjs";
import { lastWords, thisHost } from "../setup/host.mjs";
import { npmCommand, npmEnvironment } from "../setup/npm.mjs";
import { SetupError, say, step } from "../setup/progress.mjs";
import { RELEASES, type Release } from "./packages.ts";

const root = join(import.meta.dirname, "../..");
const tools = import.meta.dirname;
const dist = join(root, "dist");
const host = thisHost();

/** Runs a program of the repository. @throws {SetupError} with the end of its output */
async function run(command: string, args: readonly string[], cwd = root): Promise<string> {
  const done = await host.run(command, [...args], { cwd, env: { ...npmEnvironment(host.env), NO_COLOR: "1" } });
  if (done.code !== 0) throw new SetupError(`${args.join(" ")}:\n  ${lastWords(done)}`);
  return done.stdout;
}

const npm = (args: readonly string[]): Promise<string> => {
  const [command, ...before] = npmCommand(host);
  return run(command, [...before, ...args]);
};

async function build({ folder, bundler, complete }: Release): Promise<void> {
  const target = join(dist, folder);
  const tsdown = join(tools, "node_modules/tsdown/dist/run.mjs");
  await run(host.nodePath, [tsdown, "--config", join(tools, bundler)]);
  complete(root, target);
}

async function pack({ folder }: Release): Promise<string> {
  const args = ["pack", join(dist, folder), "--pack-destination", dist, "--json", "--ignore-scripts"];
  const [packed] = Object.values(JSON.parse(await npm(args)) as Record<string, { readonly filename: string }>);
  return join(dist, packed!.filename.replace("@", "").replace("/", "-"));
}

/** @throws {SetupError} either tool has something to say */
async function inspect({ isImported }: Release, tarball: string): Promise<void> {
  const publint = await run(host.nodePath, [join(tools, "node_modules/publint/src/cli.js"), tarball, "--strict"]);
  if (!publint.includes("All good!")) throw new SetupError(`publint: ${publint}`);
  if (!isImported) return;
  const attw = join(tools, "node_modules/@arethetypeswrong/cli/dist/index.js");
  await run(host.nodePath, [attw, tarball, "--profile", "esm-only", "--format", "ascii"]);
}

async function tarballOf(one: Release): Promise<string> {
  await build(one);
  const tarball = await pack(one);
  await inspect(one, tarball);
  return tarball;
}

/** The changelog begins with this release's section; what is published has a date. */
function checkChangelog(isDryRun: boolean): void {
  const heading = /^## (.+)$/m.exec(readFileSync(join(root, "CHANGELOG.md"), "utf8"))?.[1] ?? "";
  const [version, date = ""] = heading.split(" - ");
  if (version === TUTTI_RELEASE && (isDryRun || /^\d{4}-\d\d-\d\d$/.test(date))) return;
  throw new SetupError(`CHANGELOG.md begins with "${heading}", not with "${TUTTI_RELEASE} - <date>"`);
}

async function release(isDryRun: boolean): Promise<void> {
  checkChangelog(isDryRun);
  const state = join(root, ".tutti/release");
  mkdirSync(state, { recursive: true });
  await dependencies(tools, state, "all").install(host);
  await run(host.nodePath, [join(root, "packages/console/build.mjs"), "--if-changed"]);
  rmSync(dist, { recursive: true, force: true });
  const packages = RELEASES.map(({ folder }) => folder).join(" and ");
  const tarballs = await step(say, `building and inspecting ${packages}`, () => Promise.all(RELEASES.map(tarballOf)));
  for (const tarball of tarballs) {
    if (!isDryRun) await npm(["publish", tarball, "--provenance", "--access", "public"]);
    console.log(`${tarball} (${(statSync(tarball).size / 1024).toFixed(0)} KiB)${isDryRun ? "" : ", published"}`);
  }
}

const options = process.argv.slice(2);
if (options.length > 1 || (options[0] ?? "--dry-run") !== "--dry-run") {
  console.error("usage: npm run release [-- --dry-run]");
  process.exit(2);
}
try {
  await release(options[0] === "--dry-run");
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  say(error.message);
  process.exit(1);
}
