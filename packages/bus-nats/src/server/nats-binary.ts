import { accessSync, constants, readFileSync, statSync } from "node:fs";
import { delimiter, dirname, join, resolve } from "node:path";
import { TuttiError } from "@tutti/protocol";

/** Folders where distributions install servers, which are often not on a user's PATH. */
const FOLDERS = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/bin", "/opt/homebrew/bin"];

/**
 * Finds a nats-server on this machine. The order is TUTTI_NATS_SERVER, else the server that setup has found or
 * installed (`.tutti/nats-server.json` in `from` or a directory above it), else the PATH, else the usual folders.
 *
 * @throws {TuttiError} UNAVAILABLE: there is none, or TUTTI_NATS_SERVER names something else
 */
export function findNatsServer(from: string = import.meta.dirname, env: NodeJS.ProcessEnv = process.env): string {
  const named = env["TUTTI_NATS_SERVER"];
  if (named !== undefined && named !== "") {
    if (isExecutable(named)) return resolve(named);
    throw new TuttiError("TUTTI_UNAVAILABLE", `TUTTI_NATS_SERVER names ${named}, which cannot be run`);
  }
  const folders = [...(env["PATH"] ?? "").split(delimiter), ...FOLDERS].filter((folder) => folder !== "");
  const candidates = [rememberedBinary(from), ...folders.map((folder) => join(folder, "nats-server"))];
  const found = candidates.find((path) => path !== undefined && isExecutable(path));
  if (found !== undefined) return found;
  const advice = "run `npm run setup`, put one on the PATH, or name it in TUTTI_NATS_SERVER";
  throw new TuttiError("TUTTI_UNAVAILABLE", `there is no nats-server here: ${advice}`, { retryable: false });
}

function rememberedBinary(from: string): string | undefined {
  for (let folder = resolve(from); ; folder = dirname(folder)) {
    try {
      const text = readFileSync(join(folder, ".tutti", "nats-server.json"), "utf8");
      const { path } = JSON.parse(text) as { readonly path?: unknown };
      return typeof path === "string" ? path : undefined;
    } catch {
      // Not here: look further up.
    }
    if (dirname(folder) === folder) return undefined;
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
