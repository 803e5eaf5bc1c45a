import { existsSync } from "node:fs";
import type { SpawnOptions } from "node:child_process";

/** Part of the base of most distributions; Node itself can only make a session (setsid), no group. */
const PERL = "/usr/bin/perl";
/** One process all along: who signals it signals the program. */
const EXEC_IN_GROUP = 'setpgrp(0, 0); exec { $ARGV[0] } @ARGV; die "$ARGV[0]: $!\\n"';

export interface GroupedCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly options: Pick<SpawnOptions, "detached" | "env">;
}

/**
 * A program in a process group of its own: Ctrl-C in a terminal is then for its owner alone, who stops it last.
 *
 * On Linux the group stays in the owner's session, if that can be done. Sessions are weighed against each other there (autogroup, `man 7 sched`), and a nats-server in another session
 * than the actors waited for a core for up to a second where they shared the machine with busy loops (README.md, A busy machine). Else it gets a session, too.
 */
export function inOwnGroup(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  perl = PERL,
): GroupedCommand {
  if (process.platform !== "linux" || !existsSync(perl))
    return { command: program, args, options: { detached: true, env } };
  // Its warning of a locale that is not installed would be in the program's log.
  return {
    command: perl,
    args: ["-e", EXEC_IN_GROUP, program, ...args],
    options: { env: { PERL_BADLANG: "0", ...env } },
  };
}
