import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { makeNamedFolder } from "../../infra/setup/folder.mjs";

const root = mkdtempSync(join(tmpdir(), "tutti-home-"));
afterAll(() => rmSync(root, { recursive: true }));

test("the folder for what is brought is made with those above it, for its owner", () => {
  for (let i = 0; i < 2; i++) makeNamedFolder("TUTTI_HOME", join(root, "a/b"));
  expect([join(root, "a/b"), join(root, "a")].map((made) => statSync(made).mode & 0o777)).toEqual([0o700, 0o700]);
});

test("a folder that can't be made ends the command, which says by what it was named", () => {
  writeFileSync(join(root, "file"), "");
  const places = [join(root, "file/below"), ...(process.platform === "linux" ? ["/proc/self/tutti/home"] : [])];
  for (const path of places)
    expect(() => makeNamedFolder("TUTTI_HOME", path)).toThrow(
      /can't be made \(E.*: name another folder with TUTTI_HOME/,
    );
});
