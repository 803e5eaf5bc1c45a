import { closeSync, openSync, readFileSync } from "node:fs";

/**
 * Position of the process's flags in `/proc/<pid>/stat`, counted from the state, which follows the name in brackets
 * (`man 5 proc_pid_stat`).
 */
const FLAGS = 6;
/**
 * `PF_EXITING` in Linux' `include/linux/sched.h`: the process has begun to exit. Its memory and sockets may remain for
 * tens of milliseconds.
 */
const EXITING = 4;

/** Whether a process of this host lives; undefined: the kernel does not say (only Linux does). Takes some 20 µs. */
export function processLives(pid: number): boolean | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch {
    return HAS_PROC ? false : undefined;
  }
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[0] !== "Z" && fields[0] !== "X" && (Number(fields[FLAGS]) & EXITING) === 0;
}

const HAS_PROC = ((): boolean => {
  try {
    closeSync(openSync("/proc/self/stat", "r"));
    return true;
  } catch {
    return false;
  }
})();
