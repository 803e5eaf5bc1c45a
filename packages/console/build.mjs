/**
 * Builds the page: `node packages/console/build.mjs [--if-changed]`. The result goes to .tutti/console/page with a
 * record of its sources; a build replaces the folder at once, so that a running gateway finds the old page or the new
 * one.
 */
import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";
import { consoleBuild } from "../../infra/setup/console.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const { folder, stampFile, hash, isFresh } = consoleBuild(root, join(root, ".tutti"));
if (!process.argv.includes("--if-changed") || !isFresh()) {
  const sources = hash();
  const fresh = `${folder}.new-${process.pid}`;
  const old = `${folder}.old-${process.pid}`;
  mkdirSync(dirname(folder), { recursive: true });
  await build({
    configFile: false,
    root: join(root, "packages/console/page"),
    base: "/",
    logLevel: "warn",
    publicDir: false,
    cacheDir: join(root, ".tutti/cache/vite-console"),
    // JSX is preact's; no asset is inlined into the page, whose content security policy would refuse it.
    oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
    build: { outDir: fresh, emptyOutDir: true, assetsInlineLimit: 0, modulePreload: false, target: "es2022" },
  });
  rmSync(stampFile, { force: true });
  try {
    renameSync(folder, old);
  } catch {
    // No earlier build exists.
  }
  renameSync(fresh, folder);
  rmSync(old, { recursive: true, force: true });
  writeFileSync(stampFile, JSON.stringify({ sha256: sources }));
}
