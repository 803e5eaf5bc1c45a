/** Mistyped options of `npm run bench:…` are reported with the usage and without a stack. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { scripts: Record<string, string> };
const NAMES = Object.keys(scripts).flatMap((name) => (name.startsWith("bench:") ? [name.slice("bench:".length)] : []));

const run = (name: string, ...options: string[]): Promise<{ code: number; stdout: string; stderr: string }> =>
  new Promise((resolve) => {
    execFile(
      process.execPath,
      [join(ROOT, "test/bench", name, "main.ts"), ...options],
      { cwd: ROOT },
      (error, stdout, stderr) => resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });

test.each(NAMES)("bench:%s says what is wrong with an option, how it is used, and no stack", async (name) => {
  const { code, stdout, stderr } = await run(name, "--sceonds", "3");
  expect([code, stdout]).toEqual([2, ""]);
  expect(stderr).toContain("--sceonds");
  expect(stderr).toContain(`bench:${name}`);
  expect(stderr).not.toMatch(/^ +at /m);
});

test("an option that takes a number takes nothing else, and --help is an answer", async () => {
  const { code, stderr } = await run("serve", "--rate", "many");
  expect([code, stderr.split("\n")[0]]).toEqual([2, '--rate takes a number, not "many"']);
  const help = await run("serve", "--help");
  expect([help.code, help.stderr]).toEqual([0, ""]);
  expect(help.stdout).toContain("bench:serve");
});
