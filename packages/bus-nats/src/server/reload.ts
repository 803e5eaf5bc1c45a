import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

/**
 * Makes the server that wrote `pidFile` read its configuration again. Revoked users are cut off, new permissions take
 * effect, and all other connections go on.
 *
 * @returns false where no such server runs on this machine
 */
export function reloadNatsServer(pidFile: string): boolean {
  const pid = pidIn(pidFile);
  if (pid === undefined || !isNatsServer(pid)) return false;
  try {
    process.kill(pid, "SIGHUP");
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false;
    throw error;
  }
}

function pidIn(path: string): number | undefined {
  try {
    const pid = Number(readFileSync(path, "utf8").trim());
    return Number.isSafeInteger(pid) && pid > 1 ? pid : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Checks the name of the process. A killed server leaves its file behind, and its number may now belong to another
 * process, which a SIGHUP would end.
 */
function isNatsServer(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/comm`, "utf8").trim() === "nats-server";
  } catch {
    return nameByPs(pid).endsWith("nats-server"); // no /proc: macOS, BSD
  }
}

function nameByPs(pid: number): string {
  try {
    return execFileSync("ps", ["-p", String(pid), "-o", "comm="], { encoding: "utf8" }).trim();
  } catch {
    return "";
  }
}
