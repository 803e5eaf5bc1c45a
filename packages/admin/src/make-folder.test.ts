import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { CommandError } from "./failure.ts";
import { makeFolder, makeNamedFolder } from "./make-folder.ts";

const root = mkdtempSync(join(tmpdir(), "tutti-folder-"));
afterAll(() => rmSync(root, { recursive: true }));

test("folders that are missing are made for their owner, and one that is there is left as it is", () => {
  const path = join(root, "a/b/c");
  makeFolder(path);
  makeFolder(path);
  expect([path, join(root, "a")].map((made) => statSync(made).mode & 0o777)).toEqual([0o700, 0o700]);
  mkdirSync(join(root, "open"), { mode: 0o755 });
  makeFolder(join(root, "open"));
  expect(statSync(join(root, "open")).mode & 0o777).toBe(0o755);
  makeFolder(join(root, "results/of"), 0o777);
  expect(statSync(join(root, "results")).mode & 0o777).toBe(0o777 & ~process.umask());
});

test("where a file is in the way, or the file system has no place for a folder, it fails at once", () => {
  writeFileSync(join(root, "file"), "");
  expect(() => makeFolder(join(root, "file"))).toThrow("EEXIST");
  expect(() => makeFolder(join(root, "file/below"))).toThrow("ENOTDIR");
  expect(() => makeNamedFolder("--out", join(root, "file"))).toThrow(CommandError);
  expect(() => makeNamedFolder("--out", join(root, "file"))).toThrow(
    `--out ${join(root, "file")} can't be made: EEXIST`,
  );
  // Node's own makes no end of it.
  if (process.platform === "linux") expect(() => makeFolder("/proc/self/tutti/run")).toThrow("ENOENT");
});
