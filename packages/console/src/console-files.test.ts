import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { CONSOLE_FILES_MAX, ConsoleFiles } from "./console-files.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tutti-console-files-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

function built(name: string, page: string): string {
  const path = join(folder, name);
  mkdirSync(join(path, "assets"), { recursive: true });
  writeFileSync(join(path, "index.html"), page);
  writeFileSync(join(path, "assets/a-1.js"), "1");
  writeFileSync(join(path, "secret.pem"), "key");
  return path;
}
const text = async (files: ConsoleFiles, path: string): Promise<string | undefined> => {
  const file = await files.get(path);
  return file === undefined ? undefined : `${file.status} ${new TextDecoder().decode(file.bytes)}`;
};

test("the page and its assets are read, and nothing else of the folder or beyond it", async () => {
  const files = new ConsoleFiles(built("page", "first"));
  expect(await text(files, "/")).toBe("200 first");
  expect(await text(files, "/index.html")).toBe("200 first");
  expect(await files.get("/assets/a-1.js")).toMatchObject({ type: "text/javascript; charset=utf-8", immutable: true });
  for (const path of [
    "/secret.pem",
    "/assets/../secret.pem",
    "/assets",
    "/assets/",
    "/assets/b.js",
    "/../page/index.html",
  ])
    expect(await files.get(path), path).toBeUndefined();
});

test("a page that is built anew is served anew, without a restart", async () => {
  const path = built("page", "first");
  const files = new ConsoleFiles(path);
  expect(await text(files, "/")).toBe("200 first");
  const next = built("next", "second");
  renameSync(path, join(folder, "old"));
  renameSync(next, path);
  expect(await text(files, "/")).toBe("200 second");
});

test("where nothing was built there is a page that says what to do, and it goes away with a build", async () => {
  const files = new ConsoleFiles(join(folder, "page"));
  expect(await text(files, "/")).toMatch(/^503 .*has not been built/s);
  expect(await files.get("/assets/a-1.js")).toBeUndefined();
  built("page", "first");
  expect(await text(files, "/")).toBe("200 first");
});

test("of a folder that is none of ours only so many files are read", async () => {
  const path = built("page", "first");
  for (let i = 0; i < CONSOLE_FILES_MAX + 20; i++) writeFileSync(join(path, "assets", `many-${i}.js`), "");
  const files = new ConsoleFiles(path);
  await files.get("/");
  const found = await Promise.all(
    Array.from({ length: CONSOLE_FILES_MAX + 20 }, (_, i) => files.get(`/assets/many-${i}.js`)),
  );
  expect(found.filter((file) => file !== undefined).length).toBeLessThanOrEqual(CONSOLE_FILES_MAX);
});
