/** Tests of log files on a disk that is full for a while. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, expect, test, vi } from "vitest";
import { Announcer } from "./announcer.ts";
import { provideNats } from "./nats.ts";
import { LogFile, RunDirectory, explainUnwritable } from "./run-directory.ts";
import type { UpOptions } from "./up-options.ts";

/** Number of bytes left on the disk. */
const disk = { left: Infinity };
const write = ((file: number, bytes: Uint8Array, from: number): number => {
  const taken = Math.min(disk.left, bytes.length - from);
  if (taken === 0) throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
  disk.left -= taken;
  return writeSync(file, bytes, from, taken);
}) as typeof writeSync;

const folder = mkdtempSync(join(tmpdir(), "tutti-full-"));
afterAll(() => rmSync(folder, { recursive: true }));
afterEach(() => void (disk.left = Infinity));

test("lines that a full disk does not take are counted, and the log says so and goes on once there is room", () => {
  const path = join(folder, "full.log");
  const log = new LogFile(path, write);
  log.write("before");
  disk.left = 0;
  for (let i = 0; i < 3; i++) log.write("lost");
  disk.left = Infinity;
  log.write("after");
  log.close();
  log.write("not any more");
  const told = "3 lines are missing here: they could not be written";
  expect(readFileSync(path, "utf8").split("\n")).toEqual(["before", told, "after", ""]);
});

test("a line that was cut short by the end of the disk counts as lost, and the next one begins a line", () => {
  const path = join(folder, "torn.log");
  const log = new LogFile(path, write);
  disk.left = 4;
  log.write("abcdefgh");
  log.write("lost");
  disk.left = Infinity;
  log.write("after");
  log.close();
  const told = "2 lines are missing here: they could not be written";
  expect(readFileSync(path, "utf8").split("\n")).toEqual(["abcd", told, "after", ""]);
});

test("a file that can't be made is no end of who logs, and is tried again", () => {
  const log = new LogFile(join(folder, "absent", "x.log"));
  log.write("lost");
  log.close();
  // A full disk simulated by the kernel.
  symlinkSync("/dev/full", join(folder, "dev.log"));
  const full = new LogFile(join(folder, "dev.log"));
  full.write("lost");
  full.close();
});

/** The error that `work` throws, as `tutti up` explains it. */
function explained(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return explainUnwritable(error);
  }
}

test("a folder for runs that can't be written is explained in one line, with what to do", () => {
  const inTheWay = join(folder, "a-file");
  writeFileSync(inTheWay, "");
  if (process.platform === "linux") {
    vi.stubEnv("TUTTI_RUN_DIR", "/proc/tutti");
    const { message } = explained(() => new RunDirectory("4222")) as Error;
    expect(message).toMatch(/^\/proc\/tutti can't be written \(ENOENT: .*\): .* has no place for folders, or name/);
  }
  vi.stubEnv("TUTTI_RUN_DIR", inTheWay);
  const why = explained(() => new RunDirectory("4222"));
  const advice = "a file is in its way, or name another folder with TUTTI_RUN_DIR";
  expect(why).toMatchObject({ name: "CommandError", exitCode: 1 });
  expect((why as Error).message).toMatch(new RegExp(`^${inTheWay} can't be written \\(E[A-Z]+: .*\\): ${advice}$`));
  // A full disk simulated by the kernel.
  const full = explained(() => writeFileSync("/dev/full", "x")) as Error;
  expect(full.message).toMatch(/can't be written \(ENOSPC: .*\): free some space there, or name another folder/);
  const ours = new TypeError("a mistake");
  expect(explainUnwritable(ours)).toBe(ours);
  vi.unstubAllEnvs();
});

test("files elsewhere, programs and ports that fail with the same codes aren't blamed on the folder for runs", () => {
  const root = join(folder, "runs");
  const file = join(folder, "no-folder");
  writeFileSync(file, "");
  vi.stubEnv("TUTTI_RUN_DIR", root);
  const failures = [
    () => mkdirSync(join(file, "creds")),
    // A name that only begins like the folder's.
    () => failWith({ code: "EACCES", syscall: "open", path: `${root}-old/nk` }),
    () => failWith({ code: "EACCES", syscall: "spawn nats-server", path: "/opt/nats-server" }),
    () => failWith({ code: "EACCES", syscall: "listen" }),
  ];
  for (const failure of failures) expect(explained(failure)).not.toMatchObject({ name: "CommandError" });
  const inside = explained(() => failWith({ code: "EACCES", syscall: "open", path: join(root, "4222/nats.conf") }));
  expect(inside).toMatchObject({ name: "CommandError" });
  vi.unstubAllEnvs();
});

const failWith = (fields: Partial<NodeJS.ErrnoException>): never => {
  throw Object.assign(new Error("a failure"), fields);
};

test("credentials whose path can't be followed are named, and not the folder for runs", async () => {
  vi.stubEnv("TUTTI_RUN_DIR", join(folder, "runs"));
  const options = { nats: "nats://127.0.0.1:4222", creds: join(folder, "x".repeat(300)) } as UpOptions;
  const announcer = new Announcer({ json: true, write: () => undefined });
  await expect(provideNats(options, announcer)).rejects.toMatchObject({
    name: "CommandError",
    message: expect.stringMatching(/^--creds can't be read \(ENAMETOOLONG: .*\): name a file or folder/) as string,
  });
  vi.unstubAllEnvs();
});
