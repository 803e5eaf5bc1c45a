import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { expect, it, onTestFinished } from "vitest";
import { inOwnGroup } from "./process-group.ts";

const isLinux = process.platform === "linux";

/** Prints its arguments, and lives until it is ended. */
const PROGRAM = ["-e", "process.stdout.write(process.argv.slice(1).join()); setInterval(() => {}, 1e6);", "a b", "$c"];

async function started(perl?: string): Promise<{ readonly child: ChildProcess; readonly said: string }> {
  const { command, args, options } = inOwnGroup(process.execPath, PROGRAM, process.env, perl);
  const child = spawn(command, args, { ...options, stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const [said] = (await once(child.stdout, "data")) as [Buffer];
  return { child, said: said.toString() };
}

/** `man 5 proc_pid_stat`: fields 5 and 6. */
function groupAndSession(pid: number | "self"): readonly number[] {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const [, , group, session] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return [Number(group), Number(session)];
}

it.runIf(isLinux && existsSync("/usr/bin/perl"))(
  "a group of its own in the same session, under one process id",
  async () => {
    const { child, said } = await started();
    expect(said).toBe("a b,$c");
    expect(groupAndSession(child.pid!)).toEqual([child.pid, groupAndSession("self")[1]]);
    child.kill("SIGTERM");
    expect(await once(child, "exit")).toEqual([null, "SIGTERM"]);
  },
);

it.runIf(isLinux)("a session of its own where there is no Perl", async () => {
  const { child, said } = await started("/nowhere/perl");
  expect(said).toBe("a b,$c");
  expect(groupAndSession(child.pid!)).toEqual([child.pid, child.pid]);
});

it.runIf(isLinux && existsSync("/usr/bin/perl"))("a program that can't be run says so and fails", async () => {
  const { command, args, options } = inOwnGroup("/nowhere/nats-server", [], { LC_ALL: "xx_YY", PERL5OPT: "-MNowhere" });
  const child = spawn(command, args, { ...options, stdio: ["ignore", "ignore", "pipe"] });
  const ended = once(child, "exit");
  const [said] = (await once(child.stderr, "data")) as [Buffer];
  expect(said.toString()).toBe("/nowhere/nats-server cannot be run: No such file or directory\n");
  expect((await ended)[0]).not.toBe(0);
});
