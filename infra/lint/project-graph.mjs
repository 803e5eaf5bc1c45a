/**
 * nx's project graph, fresh and private. `@nx/enforce-module-boundaries` reads the graph that nx has cached, and where
 * it finds none, or one that was computed while a manifest was half written, it skips itself with no more than a
 * warning. So the graph is computed for each lint, in a folder that no other nx process writes to.
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = join(dirname(fileURLToPath(import.meta.url)), "../..");

/** The warning that `@nx/enforce-module-boundaries` prints when it skips itself. */
export const SKIPPED = "No cached ProjectGraph is available";

/**
 * Computes the graph. Must run before anything of nx is imported, which reads the environment once.
 *
 * @returns {Promise<() => void>} removes the graph again
 */
export async function computeProjectGraph() {
  const cache = join(root, ".tutti/cache");
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, "nx-"));
  process.env["NX_WORKSPACE_DATA_DIRECTORY"] = folder;
  process.env["NX_DAEMON"] = "false";
  process.chdir(root);
  const { createProjectGraphAsync, readCachedProjectGraph } = await import("@nx/devkit");
  await createProjectGraphAsync({ exitOnError: false, resetDaemonClient: false });
  readCachedProjectGraph(); // throws where the rule would skip
  return () => rmSync(folder, { recursive: true, force: true });
}
