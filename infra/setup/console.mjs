/**
 * Builds the console's page into .tutti/console/page, and records from which sources it was made. A failed build
 * doesn't stop the setup: the cluster serves without the page.
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { lastWords, readJson } from "./host.mjs";
import { step } from "./progress.mjs";

/**
 * Inputs of the build besides packages/console: the colours of models, and the versions of its libraries and of Vite.
 */
const BESIDES = ["packages/sim-report/src/palette.ts", "package-lock.json"];

/** @param {string} root @param {string} state */
export function consoleBuild(root, state) {
  const folder = join(state, "console/page");
  const stampFile = join(state, "console/built.json");
  const own = join(root, "packages/console");

  const hash = () => {
    const sum = createHash("sha256");
    const names = readdirSync(own, { recursive: true, encoding: "utf8" }).sort();
    const files = names.filter(
      (name) => /\.(ts|tsx|mjs|css|html|json|svg)$/.test(name) && !/node_modules|\.test\./.test(name),
    );
    for (const path of [...files.map((name) => join("packages/console", name)), ...BESIDES])
      sum
        .update(`${path}\0`)
        .update(readFileSync(join(root, path)))
        .update("\0");
    return sum.digest("hex");
  };
  const isFresh = () => existsSync(join(folder, "index.html")) && readJson(stampFile)?.sha256 === hash();

  /** @param {import("./host.mjs").Host} host @param {string} node */
  const make = async (host, node) => {
    if (isFresh()) return;
    await step(host.say, "building the console (a few seconds)", async () => {
      const done = await host.run(node, [join(own, "build.mjs"), "--if-changed"], { cwd: root, env: host.env });
      if (done.code !== 0) host.say(`the console could not be built, everything else is served: ${lastWords(done)}`);
    });
  };
  return { folder, stampFile, hash, isFresh, make };
}
