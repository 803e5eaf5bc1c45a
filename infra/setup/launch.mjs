/** Starts a prepared command under the right Node. The launcher stays its parent: signals and the exit code pass. */
import { spawn } from "node:child_process";
import { constants } from "node:os";
import { join } from "node:path";
import { bringJaeger, findJaeger } from "../jaeger/jaeger.mjs";
import { thisHost } from "./host.mjs";
import { withLock } from "./lock.mjs";
import { bringNatsServer, describeNatsServer, findNatsServer, rememberNatsServer } from "./nats-server.mjs";
import { withCompileCache, withNodeFirst } from "./node-runtime.mjs";
import { say, SetupError } from "./progress.mjs";

/**
 * @typedef {{ node: string, natsServer: import("./nats-server.mjs").NatsServer | undefined }} Ready
 * @typedef {{ ready: Ready, state: string, script: string, args: string[], env?: Record<string, string> }} Launch
 */

export const ON_WINDOWS =
  "Tutti is tested on Linux. On Windows use it in WSL2 (`wsl --install`); what follows may fail on Windows itself.";

/** Whether `tutti` with these arguments serves, and doesn't only print a help text. @param {string[]} args */
export const serves = ([command, ...flags]) => command === "up" && !flags.some((flag) => /^(-h|--help)$/.test(flag));

/** Whether `tutti` with these arguments starts a NATS server: not on servers that run. @param {string[]} args */
export const startsServer = (args) => serves(args) && !args.some((flag) => /^--nats(=.*)?$/.test(flag));

/** @param {import("./host.mjs").Host} host @param {string} state */
export async function natsServerFor(host, state) {
  const found = (await findNatsServer(host, state)) ?? (await bringNatsServer(host, state));
  rememberNatsServer(host, state, found);
  return found;
}

/** @param {import("./nats-server.mjs").NatsServer | undefined} server */
export const sayServer = (server) => server !== undefined && say(describeNatsServer(server));

/** @param {{ pid: number } | undefined} owner - of the lock */
export const sayWaiting = (owner) => say(`waiting for another setup (process ${owner?.pid ?? "just starting"})`);

/**
 * The result of a step without which the rest goes on; its failure is printed.
 *
 * @template Had
 * @param {() => Had | Promise<Had>} work
 */
async function unlessFailed(work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    say(error.message);
    return undefined;
  }
}

/**
 * Finds or brings an optional program; where neither works, the reason is printed.
 *
 * @template Had
 * @param {string} state
 * @param {string} name
 * @param {(host: import("./host.mjs").Host, state: string) => Had | undefined} find
 * @param {(host: import("./host.mjs").Host, state: string) => Promise<Had>} bring
 * @param {import("./host.mjs").Host} [host]
 * @returns {Promise<Had | undefined>}
 */
export const orNone = (state, name, find, bring, host = thisHost()) =>
  unlessFailed(
    async () =>
      find(host, state) ?? withLock(join(state, `${name}.lock`), async () => find(host, state) ?? bring(host, state)),
  );

/**
 * Node's flags. The process that supervises a cluster allocates little: a young generation of full size would only take
 * memory.
 *
 * @param {string[]} args
 */
const nodeFlags = (args) => (args[0] === "up" ? ["--max-semi-space-size=2", "--expose-gc"] : []);

/** @param {Launch} launch */
export async function launch({ ready, state, script, args, env: own = {} }) {
  const env = { ...withCompileCache(withNodeFirst(process.env, ready.node), state), ...own };
  if (ready.natsServer !== undefined) env["TUTTI_NATS_SERVER"] = ready.natsServer.path;
  const isTraced = serves(args) && args.includes("--jaeger");
  const jaeger = isTraced ? await unlessFailed(() => findJaeger(thisHost(), state)) : undefined;
  if (jaeger !== undefined) env["TUTTI_JAEGER"] = jaeger.path;
  // The system doesn't wait for a Jaeger that is still to be brought, nor needs one.
  const comes = isTraced && jaeger === undefined && !process.env["TUTTI_JAEGER"];
  if (comes) env["TUTTI_JAEGER_COMES"] = "1";
  /** @type {import("node:child_process").StdioOptions} */
  const stdio = comes ? ["inherit", "inherit", "inherit", "ipc"] : "inherit";
  const child = spawn(ready.node, [...nodeFlags(args), script, ...args], { stdio, env });
  child.on("error", (error) => fail(error));
  // Ctrl-C at a terminal reaches the child without us; forwarded, it would count as a second Ctrl-C, which means "hurry
  // up".
  const forward = (/** @type {NodeJS.Signals} */ signal) => {
    if (signal !== "SIGINT" || !process.stdin.isTTY) child.kill(signal);
  };
  for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"])) process.on(signal, forward);
  child.on("exit", (code, signal) => process.exit(signal === null ? (code ?? 1) : 128 + constants.signals[signal]));
  if (!comes) return;
  // Its steps would write into the system's status line.
  const quiet = { ...thisHost(), say: () => undefined };
  const brought = await orNone(state, "jaeger", findJaeger, bringJaeger, quiet);
  if (child.connected) child.send({ jaeger: brought?.path ?? null });
}

/** @param {unknown} error @returns {never} */
export function fail(error) {
  if (error instanceof SetupError) say(error.message);
  else console.error(error);
  process.exit(1);
}
