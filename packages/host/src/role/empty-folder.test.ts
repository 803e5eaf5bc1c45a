import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { emptyFolder } from "./empty-folder.ts";

test("an executor's working directory is its owner's, read-only and empty, or the executor does not start", () => {
  const state = mkdtempSync(join(tmpdir(), "tutti-empty-"));
  const path = emptyFolder(state);
  expect(path).toBe(join(state, "empty"));
  expect(statSync(path).mode & 0o777).toBe(0o500);
  expect(emptyFolder(state)).toBe(path); // the next executor shares it
  chmodSync(path, 0o700);
  writeFileSync(join(path, "key.nk"), "");
  expect(() => emptyFolder(state)).toThrow(/must be empty/);
  chmodSync(path, 0o700);
  rmSync(state, { recursive: true });
});

test("a link in its place changes no mode elsewhere", () => {
  const state = mkdtempSync(join(tmpdir(), "tutti-empty-"));
  const target = join(state, "home");
  mkdirSync(target, { mode: 0o755 });
  symlinkSync(target, join(state, "empty"));
  expect(() => emptyFolder(state)).toThrow(/empty is a link/);
  expect(statSync(target).mode & 0o777).toBe(0o755);
  rmSync(state, { recursive: true });
});
