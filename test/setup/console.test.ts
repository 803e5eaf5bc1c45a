import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { consoleBuild } from "../../infra/setup/console.mjs";
import { machine } from "./machine.ts";

let root: string;
let state: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "tutti-console-build-"));
  state = join(root, ".tutti");
  for (const path of [
    "packages/console/page/app.tsx",
    "packages/console/README.md",
    "packages/sim-report/src/palette.ts",
    "package-lock.json",
  ])
    write(path, "first");
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function write(path: string, text: string): void {
  mkdirSync(join(root, path, ".."), { recursive: true });
  writeFileSync(join(root, path), text);
}

/** A machine whose build has the same effect as packages/console/build.mjs. */
function building() {
  const said: string[] = [];
  const host = machine({
    say: (line) => said.push(line),
    programs: {
      node: () => {
        const { folder, stampFile, hash } = consoleBuild(root, state);
        mkdirSync(folder, { recursive: true });
        writeFileSync(join(folder, "index.html"), "");
        writeFileSync(stampFile, JSON.stringify({ sha256: hash() }));
        return "";
      },
    },
  });
  return { host, said };
}

test("the page is built once, and again when something of it or of its libraries has changed", async () => {
  const { host } = building();
  const page = consoleBuild(root, state);
  expect(page.isFresh()).toBe(false);
  await page.make(host, "node");
  await page.make(host, "node");
  expect([host.calls.length, page.isFresh()]).toEqual([1, true]);
  for (const path of ["packages/console/page/app.tsx", "packages/sim-report/src/palette.ts", "package-lock.json"]) {
    write(path, "second");
    expect(page.isFresh(), path).toBe(false);
    await page.make(host, "node");
    expect(page.isFresh(), path).toBe(true);
  }
  expect(host.calls).toHaveLength(4);
});

test("neither its README nor its tests build it anew, and a folder that was emptied does", async () => {
  const { host } = building();
  const page = consoleBuild(root, state);
  await page.make(host, "node");
  write("packages/console/README.md", "second");
  write("packages/console/page/app.test.ts", "second");
  expect(page.isFresh()).toBe(true);
  rmSync(page.folder, { recursive: true });
  expect(page.isFresh()).toBe(false);
});

test("the same sources elsewhere are the same page", () => {
  const other = mkdtempSync(join(tmpdir(), "tutti-console-build-"));
  cpSync(root, other, { recursive: true });
  expect(consoleBuild(other, join(other, ".tutti")).hash()).toBe(consoleBuild(root, state).hash());
  rmSync(other, { recursive: true });
});

test("a page that can't be built is said so, and nothing else fails because of it", async () => {
  const said: string[] = [];
  const host = machine({
    say: (line) => said.push(line),
    programs: { node: () => ({ code: 1, stderr: "no such module" }) },
  });
  await consoleBuild(root, state).make(host, "node");
  expect(said.join("\n")).toMatch(/could not be built.*no such module/s);
});
