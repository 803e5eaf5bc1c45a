import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { dependencies, satisfies } from "../../infra/setup/dependencies.mjs";
import { machine } from "./machine.ts";

let root: string;
let state: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "tutti-deps-"));
  state = join(root, ".tutti");
  mkdirSync(state);
  lockfile("1.0.0");
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const packages = (version: string) => ({ packages: { "": {}, "node_modules/pino": { version } } });
const lockfile = (version: string) => writeFileSync(join(root, "package-lock.json"), JSON.stringify(packages(version)));
function installed(version: string): void {
  mkdirSync(join(root, "node_modules"), { recursive: true });
  writeFileSync(join(root, "node_modules/.package-lock.json"), JSON.stringify(packages(version)));
}

/** A machine whose npm installs the lockfile as of the call. */
const withNpm = (version: string) =>
  machine({
    programs: {
      npm: () => {
        installed(version);
        return "";
      },
    },
  });

test("a clone without node_modules gets npm ci, and then nothing more", async () => {
  const host = withNpm("1.0.0");
  expect(dependencies(root, state).check()).toBe("missing");
  await dependencies(root, state).install(host);
  expect(host.calls).toHaveLength(1);
  expect(host.calls[0]).toMatch(/^npm ci --prefix /);
  expect(dependencies(root, state).check()).toBe("fresh");
  await dependencies(root, state).install(host);
  expect(host.calls).toHaveLength(1);
});

test("what somebody installed by hand from the same lockfile is taken as it is", async () => {
  installed("1.0.0");
  const host = withNpm("1.0.0");
  expect(dependencies(root, state).check()).toBe("unstamped");
  await dependencies(root, state).install(host);
  expect(host.calls).toEqual([]);
  expect(dependencies(root, state).check()).toBe("fresh");
});

test("a stale stamp is no stamp: a changed lockfile changes only what differs", async () => {
  await dependencies(root, state).install(withNpm("1.0.0"));
  lockfile("1.1.0");
  expect(dependencies(root, state).check()).toBe("changed");
  const host = withNpm("1.1.0");
  await dependencies(root, state).install(host);
  expect(host.calls[0]).toMatch(/^npm install --no-save --prefix /);
  expect(dependencies(root, state).check()).toBe("fresh");
});

test("a node_modules that was removed is missed though the stamp is right", async () => {
  await dependencies(root, state).install(withNpm("1.0.0"));
  rmSync(join(root, "node_modules"), { recursive: true });
  expect(dependencies(root, state).check()).toBe("missing");
});

test("an installation that was cut short is done again from the start", async () => {
  const failing = machine({ programs: { npm: () => ({ code: 1, stderr: "npm error ENOSPC" }) } });
  await expect(dependencies(root, state).install(failing)).rejects.toThrow(/mend this[^]*ENOSPC/);
  installed("1.0.0"); // the part that was installed
  expect(dependencies(root, state).check()).toBe("missing");
  await dependencies(root, state).install(withNpm("1.0.0"));
  expect(dependencies(root, state).check()).toBe("fresh");
  expect(existsSync(join(state, "dependencies.begun"))).toBe(false);
});

test("a package for another platform may be absent, any other may not", () => {
  const wanted = {
    packages: { "node_modules/a": { version: "1.0.0" }, "node_modules/b": { version: "2.0.0", optional: true } },
  };
  expect(satisfies({ packages: { "node_modules/a": { version: "1.0.0" } } }, wanted)).toBe(true);
  expect(satisfies({ packages: { "node_modules/b": { version: "2.0.0" } } }, wanted)).toBe(false);
  expect(satisfies({ packages: { "node_modules/a": { version: "0.9.0" } } }, wanted)).toBe(false);
  expect(satisfies(undefined, wanted)).toBe(false);
});
