#!/usr/bin/env node
/**
 * The `tutti` command of the published package. It brings Node 24 where the machine's is older, and a nats-server for
 * `tutti up`, into a folder of the user's; then it runs the command.
 */
import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { makeNamedFolder } from "./folder.mjs";
import { readJson, thisHost } from "./host.mjs";
import { fail, launch, natsServerFor, ON_WINDOWS, sayServer, sayWaiting, startsServer } from "./launch.mjs";
import { withLock } from "./lock.mjs";
import { rememberedNatsServer } from "./nats-server.mjs";
import { nodeRuntime, withNodeFirst } from "./node-runtime.mjs";
import { SetupError } from "./progress.mjs";

const home = join(dirname(fileURLToPath(import.meta.url)), "../..");

/**
 * The folder for what is brought and for what a running cluster needs: TUTTI_HOME, else `tutti` in the user's folder
 * for caches. The package's own folder may be read-only, and ends with the package.
 *
 * @param {import("./host.mjs").Host} host
 */
function stateFolder({ env, platform }) {
  if (env["TUTTI_HOME"]) return resolve(env["TUTTI_HOME"]);
  const caches = { darwin: join(homedir(), "Library/Caches"), win32: env["LOCALAPPDATA"] }[platform];
  return join(env["XDG_CACHE_HOME"] || caches || join(homedir(), ".cache"), "tutti");
}

/** An interrupted or mixed installation would fail in a less obvious place. */
function checkParts() {
  const { version } = readJson(join(home, "package.json")) ?? {};
  const built = readJson(join(home, "lib/release.json"))?.version;
  if (version === built) return;
  throw new SetupError(
    `this is tutti ${version} with program files of ${built ?? "no release"}: install it again (npm install tutti@${version})`,
  );
}

/** @param {string[]} args @returns {Promise<void>} */
async function main(args) {
  checkParts();
  const host = thisHost();
  const state = stateFolder(host);
  makeNamedFolder("TUTTI_HOME", state);
  if (host.platform === "win32") host.say(ON_WINDOWS);
  const runtime = nodeRuntime(host, state);
  const remembered = rememberedNatsServer(host, state);
  const needsServer = startsServer(args);
  const isThere = runtime.path !== undefined && (remembered !== undefined || !needsServer);
  const ready = isThere
    ? { node: String(runtime.path), natsServer: remembered }
    : await withLock(
        join(state, "setup.lock"),
        async () => {
          const node = nodeRuntime(host, state).path ?? (await runtime.bring());
          const withNode = { ...host, env: withNodeFirst(host.env, node) };
          return { node, natsServer: needsServer ? await natsServerFor(withNode, state) : remembered };
        },
        { onWait: sayWaiting },
      );
  if (needsServer) sayServer(ready.natsServer);
  const env = { TUTTI_RUN_DIR: process.env["TUTTI_RUN_DIR"] ?? join(state, "run") };
  await launch({ ready, state, script: join(home, "lib/main.js"), args, env });
}

main(process.argv.slice(2)).catch(fail);
