/**
 * The entry point: `node infra/setup/main.mjs <start|test|tutti|check|bench|docs|fuzz|chaos|attack|soak|setup>
 * [arguments]`, as package.json's scripts and bin/tutti call it. It prepares Node, dependencies and nats-server, then
 * runs the command under the right Node.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { constants } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { consoleBuild } from "./console.mjs";
import { bringChromium, findChromium } from "../chromium/chromium.mjs";
import { bringJaeger, findJaeger } from "../jaeger/jaeger.mjs";
import { dependencies } from "./dependencies.mjs";
import { thisHost } from "./host.mjs";
import { withLock } from "./lock.mjs";
import { bringNatsServer, findNatsServer, rememberedNatsServer, rememberNatsServer } from "./nats-server.mjs";
import { nodeRuntime, withCompileCache, withNodeFirst } from "./node-runtime.mjs";
import { say, SetupError } from "./progress.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const state = join(root, ".tutti");
const TESTS = "infra/test/run.ts";

/**
 * @typedef {{ script: string | undefined, args: string[], natsServer: boolean }} Command
 * @typedef {{ node: string, natsServer: import("./nats-server.mjs").NatsServer | undefined }} Ready
 */

/** @param {string | undefined} name @param {string[]} args @returns {Command} */
function commandOf(name, args) {
  const cli = "packages/cli/src/main.ts";
  switch (name) {
    case "start":
      return { script: cli, args: ["up", ...args], natsServer: true };
    case "tutti":
      return { script: cli, args, natsServer: args[0] === "up" };
    case "test":
      return { script: TESTS, args, natsServer: needsServer(args) };
    case "check":
      return { script: TESTS, args: ["check", "boundaries", "unit", ...args], natsServer: false };
    case "bench":
      return {
        script: `test/bench/${benchmark(args[0])}/main.ts`,
        args: args.slice(1),
        natsServer: !["scheduler", "simulator", "dynamic", "planning", "pipelines"].includes(args[0] ?? ""),
      };
    case "docs":
      return { script: "test/docs/reference/main.ts", args, natsServer: false };
    case "fuzz":
      // Malformed bytes, properties under other seeds, or else faults by seed on whole clusters.
      if (args[0] === "--bytes") return { script: "test/fuzz/main.ts", args: args.slice(1), natsServer: false };
      if (args[0] === "--properties")
        return { script: "test/fuzz/properties.ts", args: args.slice(1), natsServer: false };
      return { script: "test/simulation/fuzz.ts", args, natsServer: false };
    case "chaos":
      return { script: "test/e2e/chaos/main.ts", args, natsServer: true };
    case "attack":
    case "soak":
      return { script: `test/${name}/main.ts`, args, natsServer: true };
    case "setup":
      return { script: undefined, args: [], natsServer: true };
    default:
      throw new SetupError(
        "usage: node infra/setup/main.mjs start|test|tutti|check|bench|docs|fuzz|chaos|attack|soak|setup [arguments]",
      );
  }
}

/** @param {string | undefined} name */
function benchmark(name) {
  if (name !== undefined && /^[a-z]+(-[a-z]+)*$/.test(name) && existsSync(join(root, "test/bench", name, "main.ts")))
    return name;
  throw new SetupError(`there is no benchmark "${name ?? ""}": package.json names them (bench:…)`);
}

/** Whether a suite that opens a browser runs. @param {string[]} args - of the test runner */
function needsBrowser(args) {
  const suites = args.filter((arg) => !arg.includes("/"));
  const paths = args.filter((arg) => arg.includes("/"));
  const isNamed = suites.length === 0 || suites.includes("e2e");
  return isNamed && (paths.length === 0 || paths.some((path) => path.includes("e2e")));
}

/** Suites that run without a nats-server. */
const withoutServer = new Set(["check", "boundaries", "setup", "unit", "simulation"]);

/** @param {string[]} args - of the test runner: suites, and paths as filters */
function needsServer(args) {
  const suites = args.filter((arg) => !arg.includes("/"));
  return suites.length === 0 || suites.some((suite) => !withoutServer.has(suite));
}

/** @param {Command} command @returns {Promise<Ready>} */
async function setUp(command) {
  mkdirSync(state, { recursive: true });
  const host = thisHost();
  const runtime = nodeRuntime(host, state);
  const modules = dependencies(root, state);
  const remembered = command.natsServer ? rememberedNatsServer(host, state) : undefined;
  const page = command.natsServer ? consoleBuild(root, state) : undefined;
  const isThere = modules.check() === "fresh" && (!command.natsServer || remembered !== undefined);
  const nothingToDo = isThere && (page?.isFresh() ?? true);
  if (runtime.path !== undefined && nothingToDo) return { node: runtime.path, natsServer: remembered };

  const onWait = (/** @type {{ pid: number } | undefined} */ owner) =>
    say(`waiting for another setup (process ${owner?.pid ?? "just starting"})`);
  return await withLock(
    join(state, "setup.lock"),
    async () => {
      const node = nodeRuntime(host, state).path ?? (await runtime.bring());
      const withNode = { ...host, env: withNodeFirst(host.env, node) };
      await modules.install(withNode);
      await page?.make(withNode, node);
      return { node, natsServer: command.natsServer ? await natsServerFor(withNode) : undefined };
    },
    { onWait },
  );
}

/** @param {import("./host.mjs").Host} host */
async function natsServerFor(host) {
  const found = (await findNatsServer(host, state)) ?? (await bringNatsServer(host, state));
  rememberNatsServer(state, found);
  return found;
}

/** Finds or brings a Jaeger. Without one the system runs without it, and says so itself. */
const jaegerFor = () => orNone("jaeger", findJaeger, bringJaeger);

/** Finds or brings a Chromium. Without one the tests that need it are skipped. */
const chromiumFor = () => orNone("chromium", findChromium, bringChromium);

/**
 * Finds or brings an optional program; where neither works, the reason is printed.
 *
 * @template Had
 * @param {string} name
 * @param {(host: import("./host.mjs").Host, state: string) => Had | undefined} find
 * @param {(host: import("./host.mjs").Host, state: string) => Promise<Had>} bring
 * @returns {Promise<Had | undefined>}
 */
async function orNone(name, find, bring) {
  const host = thisHost();
  try {
    const found = find(host, state);
    return found ?? (await withLock(join(state, `${name}.lock`), async () => find(host, state) ?? bring(host, state)));
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    say(error.message);
    return undefined;
  }
}

/**
 * Node's flags. The process that supervises a cluster allocates little: a young generation of full size would only take
 * memory.
 *
 * @param {Command} command
 */
const nodeFlags = (command) => (command.args[0] === "up" ? ["--max-semi-space-size=2", "--expose-gc"] : []);

/** @param {Command} command @param {Ready} ready */
async function runCommand(command, ready) {
  if (command.script === undefined) {
    console.log(`Node ${ready.node}\nnats-server ${ready.natsServer?.path} (${ready.natsServer?.version})`);
    return;
  }
  const env = withCompileCache(withNodeFirst(process.env, ready.node), state);
  if (ready.natsServer !== undefined) env["TUTTI_NATS_SERVER"] = ready.natsServer.path;
  const jaeger = command.args.includes("--jaeger") ? await jaegerFor() : undefined;
  if (jaeger !== undefined) env["TUTTI_JAEGER"] = jaeger.path;
  if (command.script === TESTS && needsBrowser(command.args)) await chromiumFor();
  const script = [join(root, command.script), ...command.args];
  const child = spawn(ready.node, [...nodeFlags(command), ...script], { stdio: "inherit", env });
  child.on("error", (error) => fail(error));
  // Ctrl-C at a terminal reaches the child without us; forwarded, it would count as a second Ctrl-C, which means "hurry
  // up".
  const forward = (/** @type {NodeJS.Signals} */ signal) => {
    if (signal !== "SIGINT" || !process.stdin.isTTY) child.kill(signal);
  };
  for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"])) process.on(signal, forward);
  child.on("exit", (code, signal) => process.exit(signal === null ? (code ?? 1) : 128 + constants.signals[signal]));
}

/** @param {unknown} error */
function fail(error) {
  if (error instanceof SetupError) say(error.message);
  else console.error(error);
  process.exit(1);
}

try {
  const command = commandOf(process.argv[2], process.argv.slice(3));
  await runCommand(command, await setUp(command));
} catch (error) {
  fail(error);
}
