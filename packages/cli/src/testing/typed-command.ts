import { execFile } from "node:child_process";
import { join } from "node:path";

export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Time limit for processes that share two cores with other tests. */
export const PATIENCE_MS = 120_000;

const main = join(import.meta.dirname, "..", "main.ts");

/** Runs `tutti` in a folder, in a process of its own. */
export const typedIn =
  (folder: string, ...command: readonly string[]) =>
  (...args: readonly string[]): Promise<Ended> =>
    new Promise((resolve) => {
      execFile(process.execPath, [main, ...command, ...args], { cwd: folder }, (error, stdout, stderr) =>
        resolve({ code: typeof error?.code === "number" ? error.code : 0, stdout, stderr }),
      );
    });
