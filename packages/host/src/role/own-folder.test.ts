import { chmodSync, chownSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import {
  makeOwnFolder,
  makeOwnNamedFolder,
  makeStateFolder,
  makeTemporaryFolder,
  temporaryFolder,
} from "./own-folder.ts";

const OTHER_USER = 12_345;
const IS_ROOT = process.getuid?.() === 0;
let temporary = "";
beforeEach(() => {
  temporary = mkdtempSync(join(tmpdir(), "tutti-own-"));
  chmodSync(temporary, 0o1777); // as /tmp is
  vi.stubEnv("TMPDIR", temporary);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(temporary, { recursive: true });
});

test("the default folder is made for its user alone, and used again", () => {
  expect(makeStateFolder(temporaryFolder())).toBe(join(temporary, `tutti-${process.getuid!()}`));
  expect(statSync(temporaryFolder()).mode & 0o777).toBe(0o700);
  makeStateFolder(temporaryFolder());
});

test("a link that somebody made first is refused, and nothing is made behind it", () => {
  const target = join(temporary, "target");
  symlinkSync(target, temporaryFolder());
  expect(() => makeStateFolder(temporaryFolder())).toThrow(/can't be made: EEXIST.*; name a folder .* with --state$/);
  mkdirSync(target);
  expect(() => makeStateFolder(temporaryFolder())).toThrow(/is a link, which another user may have put there/);
  expect(readdirSync(target)).toEqual([]);
});

test("a folder to which others may write is refused as the default, and not where --state names it", () => {
  mkdirSync(temporaryFolder());
  chmodSync(temporaryFolder(), 0o777);
  expect(() => makeStateFolder(temporaryFolder())).toThrow(
    /other users may write to .*; name a folder .* with --state$/,
  );
  const volume = join(temporary, "volume");
  mkdirSync(volume);
  chmodSync(volume, 0o777);
  expect(makeStateFolder(volume)).toBe(volume);
});

test("where others may rename it, it is refused", () => {
  chmodSync(temporary, 0o777);
  expect(() => makeStateFolder(temporaryFolder())).toThrow(
    /other users may rename what lies in .*, which is not sticky or not root's; name a folder .* with --state$/,
  );
});

test("where the operator names the folder, a link to one is as good", () => {
  const [target, link] = [join(temporary, "target"), join(temporary, "link")];
  mkdirSync(target, { mode: 0o750 });
  symlinkSync(target, link);
  expect(makeOwnNamedFolder("TUTTI_LINKS", link).mode & 0o777).toBe(0o750);
  expect(() => makeOwnFolder(link)).toThrow(/is a link/);
  rmSync(target, { recursive: true });
  expect(() => makeOwnNamedFolder("TUTTI_LINKS", link)).toThrow(/^TUTTI_LINKS .*link can't be made: /);
});

test.runIf(IS_ROOT)("another user's folder is refused, and so is one in another user's folder", () => {
  mkdirSync(temporaryFolder(), { mode: 0o700 });
  chownSync(temporaryFolder(), OTHER_USER, OTHER_USER);
  expect(() => makeStateFolder(temporaryFolder())).toThrow(/belongs to another user; name a folder .* with --state$/);
  expect(() => makeOwnFolder(temporaryFolder())).toThrow(/belongs to another user$/);
  const link = join(temporary, "link");
  symlinkSync(temporaryFolder(), link);
  expect(() => makeOwnNamedFolder("TUTTI_LINKS", link)).toThrow(/^TUTTI_LINKS .*link belongs to another user$/);
  chownSync(temporaryFolder(), 0, 0);
  chownSync(temporary, OTHER_USER, OTHER_USER);
  expect(() => makeTemporaryFolder()).toThrow(/other users may rename what lies in/);
});
