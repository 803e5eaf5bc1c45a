import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { brotliCompressSync } from "node:zlib";
import { afterEach, beforeEach, expect, test } from "vitest";
import { bringChromium, findChromium } from "../../infra/chromium/chromium.mjs";
import { machine } from "./machine.ts";

let state: string;
beforeEach(() => void (state = mkdtempSync(join(tmpdir(), "tutti-chromium-"))));
afterEach(() => rmSync(state, { recursive: true, force: true }));

const kept = () => join(state, "bin/chromium");

/** A machine whose npm brings the package; the program in it prints its version, or doesn't run. */
function withNpm(versionCode: number) {
  const npm = (): string => {
    const file = join(state, "chromium.new/node_modules/@sparticuz/chromium/bin/chromium.br");
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, brotliCompressSync("a browser"));
    return "";
  };
  const version = { code: versionCode, stderr: versionCode === 0 ? "" : "libnss3.so: cannot open" };
  return machine({ programs: { npm, [`${kept()}.new`]: () => version, [kept()]: () => "" } });
}

test("one that is named is taken, an empty name says that there is none, and the path is looked at", () => {
  const programs = { "/opt/chrome": () => "", "/usr/bin/chromium": () => "" };
  const named = (name: string) => machine({ env: { PATH: "/usr/bin", TUTTI_CHROMIUM: name }, programs });
  expect(findChromium(named("/opt/chrome"), state)).toBe("/opt/chrome");
  expect(findChromium(named(""), state)).toBe(undefined);
  expect(() => findChromium(named("/opt/none"), state)).toThrow("can't be run");
  expect(findChromium(machine({ programs }), state)).toBe("/usr/bin/chromium");
  expect(findChromium(machine({}), state)).toBe(undefined);
});

test("npm's is unpacked, tried, kept and found again", async () => {
  const host = withNpm(0);
  expect(await bringChromium(host, state)).toBe(kept());
  expect(findChromium(host, state)).toBe(kept());
});

test("one that does not run here is not kept, and elsewhere there is none", async () => {
  const host = withNpm(127);
  await expect(bringChromium(host, state)).rejects.toThrow(/does not run here: .*libnss3/);
  expect(findChromium(machine({}), state)).toBe(undefined);
  await expect(bringChromium(machine({ platform: "darwin" }), state)).rejects.toThrow("install one");
});
