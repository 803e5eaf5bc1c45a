/**
 * `npm run jaeger` brings a Jaeger, unless one is installed, and prints its path. `npm start -- --jaeger` and the
 * end-to-end test use it.
 */
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { thisHost } from "../setup/host.mjs";
import { withLock } from "../setup/lock.mjs";
import { say, SetupError } from "../setup/progress.mjs";
import { bringJaeger, findJaeger } from "./jaeger.mjs";

const state = join(dirname(fileURLToPath(import.meta.url)), "../../.tutti");

try {
  mkdirSync(state, { recursive: true });
  const host = thisHost();
  const jaeger =
    findJaeger(host, state) ?? (await withLock(join(state, "jaeger.lock"), () => bringJaeger(host, state)));
  console.log(`${jaeger.path} (${jaeger.source}${jaeger.hasPage ? "" : "; its API, without a page"})`);
} catch (error) {
  if (error instanceof SetupError) say(error.message);
  else console.error(error);
  process.exitCode = 1;
}
