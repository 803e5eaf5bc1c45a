/**
 * The entry point: `node infra/setup/main.mjs
 * <start|test|tutti|check|lint|format|bench|docs|fuzz|chaos|upgrade|attack|soak|release|image|setup> [arguments]`, as
 * package.json's scripts and bin/tutti call it. It prepares Node, dependencies and nats-server, then runs the command
 * under the right Node.
 */
import { existsSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { consoleBuild } from "./console.mjs";
import { bringChromium, findChromium } from "../chromium/chromium.mjs";
import { dependencies } from "./dependencies.mjs";
import { thisHost } from "./host.mjs";
import { withLock } from "./lock.mjs";
import {
  fail,
  launch,
  natsServerFor,
  ON_WINDOWS,
  orNone,
  sayServer,
  sayWaiting,
  serves,
  startsServer,
} from "./launch.mjs";
import { rememberedNatsServer } from "./nats-server.mjs";
import { nodeRuntime, withNodeFirst } from "./node-runtime.mjs";
import { SetupError } from "./progress.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const state = join(root, ".tutti");
const TESTS = "infra/test/run.ts";

/**
 * @typedef {{ script: string | undefined, args: string[], natsServer: boolean, page?: boolean, tools?: boolean }}
 *   Command
 *   - `page`: it needs the console's, which goes without saying with a server; `tools`: it needs what only tests,
 *   checks and figures use, which goes without saying
 * @typedef {import("./launch.mjs").Ready} Ready
 */

/** @param {string | undefined} name @param {string[]} args @returns {Command} */
function commandOf(name, args) {
  switch (name) {
    case "start":
      return tuttiCommand(["up", ...args]);
    case "tutti":
      return tuttiCommand(args);
    case "test":
      return { script: TESTS, args, natsServer: needsServer(args) };
    case "check":
      return { script: TESTS, args: ["check", "boundaries", "unit", ...args], natsServer: false };
    case "lint":
      return { script: "infra/lint/run.mjs", args, natsServer: false };
    case "format":
      return { script: "infra/lint/format.mjs", args, natsServer: false };
    case "bench":
      return {
        script: `test/bench/${benchmark(args[0])}/main.ts`,
        args: args.slice(1),
        natsServer: !["scheduler", "simulator", "dynamic", "planning", "pipelines", "sub-clusters"].includes(
          args[0] ?? "",
        ),
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
    case "upgrade":
      return { script: `test/e2e/${name}/main.ts`, args, natsServer: true };
    case "attack":
    case "soak":
      return { script: `test/${name}/main.ts`, args, natsServer: true };
    case "release":
      return { script: "infra/release/main.ts", args, natsServer: false };
    case "image":
      return { script: "infra/image/main.ts", args, natsServer: true };
    case "setup":
      return { script: undefined, args: [], natsServer: true };
    default:
      throw new SetupError(
        "usage: node infra/setup/main.mjs start|test|tutti|check|lint|format|bench|docs|fuzz|chaos|upgrade|attack|soak|release|image|setup [arguments]",
      );
  }
}

/** @param {string[]} args @returns {Command} */
const tuttiCommand = (args) => ({
  ...{ script: "packages/cli/src/main.ts", args },
  ...{ natsServer: startsServer(args), page: serves(args), tools: draws(args) },
});

/** Whether `tutti` with these arguments draws charts. @param {string[]} args */
const draws = (args) => args[0] === "figures" || args.some((arg) => /^--html(=|$)/.test(arg));

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

/**
 * The results of all, once each has ended: no work goes on without the lock after another's failure.
 *
 * @template {readonly unknown[]} T
 * @param {[...T]} works
 */
async function together(works) {
  await Promise.allSettled(works);
  return Promise.all(works);
}

/** @param {Command} command @returns {Promise<Ready>} */
async function setUp(command) {
  mkdirSync(state, { recursive: true });
  const host = thisHost();
  if (host.platform === "win32") host.say(ON_WINDOWS);
  const runtime = nodeRuntime(host, state);
  const modules = dependencies(root, state, command.tools === false ? "production" : "all");
  const remembered = command.natsServer ? rememberedNatsServer(host, state) : undefined;
  const page = (command.page ?? command.natsServer) ? consoleBuild(root, state) : undefined;
  const isThere = modules.check() === "fresh" && (!command.natsServer || remembered !== undefined);
  const nothingToDo = isThere && (page?.isFresh() ?? true);
  if (runtime.path !== undefined && nothingToDo) return { node: runtime.path, natsServer: remembered };

  return await withLock(
    join(state, "setup.lock"),
    async () => {
      const node = nodeRuntime(host, state).path ?? (await runtime.bring());
      const withNode = { ...host, env: withNodeFirst(host.env, node) };
      const [natsServer] = await together([
        command.natsServer ? natsServerFor(withNode, state) : undefined,
        modules.install(withNode).then(() => page?.make(withNode, node)),
      ]);
      return { node, natsServer };
    },
    { onWait: sayWaiting },
  );
}

/** Finds or brings a Chromium. Without one the tests that need it are skipped. */
const chromiumFor = () => orNone(state, "chromium", findChromium, bringChromium);

/** @param {Command} command @param {Ready} ready */
async function runCommand(command, ready) {
  sayServer(ready.natsServer);
  if (command.script === undefined) {
    console.log(`Node ${ready.node}`);
    return;
  }
  if (command.script === TESTS && needsBrowser(command.args)) await chromiumFor();
  await launch({ ready, state, script: join(root, command.script), args: command.args });
}

try {
  const command = commandOf(process.argv[2], process.argv.slice(3));
  await runCommand(command, await setUp(command));
} catch (error) {
  fail(error);
}
