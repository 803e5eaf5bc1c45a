import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

/**
 * Has the server that wrote `pidFile` read its configuration again: who is revoked is cut off, and permissions are the
 * new ones, without anybody else noticing.
 *
 * @returns false where none of this machine runs
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
 * A server that was killed leaves its file behind, and another process may have its number, for which a SIGHUP is the
 * end.
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
