import { accessSync, constants } from "node:fs";
import type { SpawnOptions } from "node:child_process";

/**
 * Perl is part of the base of Debian, Ubuntu and others. Node itself can only make a group together with a session
 * (setsid).
 */
const PERL = "/usr/bin/perl";
/** Replaces itself by the program, in the same process: a signal to it reaches the program. */
const EXEC_IN_GROUP = 'setpgrp(0, 0); exec { $ARGV[0] } @ARGV; die "$ARGV[0] cannot be run: $!\\n"';

export interface GroupedCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly options: Pick<SpawnOptions, "detached" | "env">;
}

/**
 * Starts a program in a process group of its own. Ctrl-C in a terminal reaches only its owner, which stops it last.
 *
 * On Linux the group stays in the owner's session, if that can be done. Sessions are weighed against each other there
 * (autogroup, `man 7 sched`), and a nats-server in another session than the actors waited for a core for up to a second
 * where they shared the machine with busy loops (README.md, A busy machine). Else it gets a session, too.
 */
export function inOwnGroup(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  perl = PERL,
): GroupedCommand {
  if (process.platform !== "linux" || !canRun(perl))
    return { command: program, args, options: { detached: true, env } };
  // Perl's warning of a locale that is not installed would be in the program's log, and the user's options may keep it
  // from starting.
  const own = { PERL_BADLANG: "0", ...env, PERL5OPT: undefined };
  return { command: perl, args: ["-e", EXEC_IN_GROUP, program, ...args], options: { env: own } };
}

function canRun(program: string): boolean {
  try {
    accessSync(program, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
