import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { checkOutput } from "./output-file.ts";

const folder = mkdtempSync(join(tmpdir(), "tutti-output-file-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("a check leaves no file behind, and one that is there as it is", () => {
  const [fresh, old, target] = ["fresh", "old", "target"].map((name) => join(folder, name)) as [string, string, string];
  checkOutput(fresh);
  expect(existsSync(fresh)).toBe(false);
  writeFileSync(old, "page");
  checkOutput(old);
  expect(readFileSync(old, "utf8")).toBe("page");
  const link = join(folder, "link");
  symlinkSync(target, link);
  checkOutput(link);
  expect(existsSync(target)).toBe(false);
  writeFileSync(link, "page");
  expect(readFileSync(target, "utf8")).toBe("page");
});

test("a folder that isn't there is refused", () => {
  expect(() => checkOutput(join(folder, "no", "page.html"))).toThrow(/page\.html can't be written \(ENOENT\)/);
});
