import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
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

const packages = (version: string, tools = true) => ({
  packages: {
    "": {},
    "node_modules/pino": { version },
    ...(tools && { "node_modules/vitest": { version, dev: true } }),
  },
});
const lockfile = (version: string) => writeFileSync(join(root, "package-lock.json"), JSON.stringify(packages(version)));
function installed(version: string, tools = true): void {
  mkdirSync(join(root, "node_modules"), { recursive: true });
  writeFileSync(join(root, "node_modules/.package-lock.json"), JSON.stringify(packages(version, tools)));
}

/** A machine whose npm installs the lockfile as of the call. */
const withNpm = (version: string) =>
  machine({
    programs: {
      npm: (args) => {
        installed(version, !args.includes("--omit"));
        return "";
      },
    },
  });

test("a clone without node_modules gets npm ci, and then nothing more", async () => {
  const host = withNpm("1.0.0");
  expect(dependencies(root, state, "all").check()).toBe("missing");
  await dependencies(root, state, "all").install(host);
  expect(host.calls).toHaveLength(1);
  expect(host.calls[0]).toMatch(/^npm ci --prefix /);
  expect(dependencies(root, state, "all").check()).toBe("fresh");
  await dependencies(root, state, "all").install(host);
  expect(host.calls).toHaveLength(1);
});

test("what somebody installed by hand from the same lockfile is taken as it is", async () => {
  installed("1.0.0");
  const host = withNpm("1.0.0");
  expect(dependencies(root, state, "all").check()).toBe("unstamped");
  await dependencies(root, state, "all").install(host);
  expect(host.calls).toEqual([]);
  expect(dependencies(root, state, "all").check()).toBe("fresh");
});

test("a stale stamp is no stamp: a changed lockfile changes only what differs", async () => {
  await dependencies(root, state, "all").install(withNpm("1.0.0"));
  lockfile("1.1.0");
  expect(dependencies(root, state, "all").check()).toBe("changed");
  const host = withNpm("1.1.0");
  await dependencies(root, state, "all").install(host);
  expect(host.calls[0]).toMatch(/^npm install --no-save --prefix /);
  expect(dependencies(root, state, "all").check()).toBe("fresh");
});

test("a node_modules that was removed is missed though the stamp is right", async () => {
  await dependencies(root, state, "all").install(withNpm("1.0.0"));
  rmSync(join(root, "node_modules"), { recursive: true });
  expect(dependencies(root, state, "all").check()).toBe("missing");
});

test("an installation that was cut short is done again from the start", async () => {
  const failing = machine({ programs: { npm: () => ({ code: 1, stderr: "npm error ENOSPC" }) } });
  await expect(dependencies(root, state, "all").install(failing)).rejects.toThrow(/mend this[^]*ENOSPC/);
  installed("1.0.0"); // the part that was installed
  expect(dependencies(root, state, "all").check()).toBe("missing");
  await dependencies(root, state, "all").install(withNpm("1.0.0"));
  expect(dependencies(root, state, "all").check()).toBe("fresh");
  expect(existsSync(join(state, "dependencies.begun"))).toBe(false);
});

test("a package for another platform may be absent, any other may not", () => {
  const wanted = {
    packages: { "node_modules/a": { version: "1.0.0" }, "node_modules/b": { version: "2.0.0", optional: true } },
  };
  expect(satisfies({ packages: { "node_modules/a": { version: "1.0.0" } } }, wanted, "all")).toBe(true);
  expect(satisfies({ packages: { "node_modules/b": { version: "2.0.0" } } }, wanted, "all")).toBe(false);
  expect(satisfies({ packages: { "node_modules/a": { version: "0.9.0" } } }, wanted, "all")).toBe(false);
  expect(satisfies(undefined, wanted, "all")).toBe(false);
});

test("npm start leaves out the tools, and whatever needs them adds them to what is installed", async () => {
  const host = withNpm("1.0.0");
  await dependencies(root, state, "production").install(host);
  expect(host.calls[0]).toMatch(/^npm ci .* --omit dev$/);
  expect(dependencies(root, state, "production").check()).toBe("fresh");
  expect(dependencies(root, state, "all").check()).toBe("changed");
  await dependencies(root, state, "all").install(host);
  expect(host.calls[1]).toMatch(/^npm install --no-save .* --include dev$/);
  for (const extent of ["production", "all"] as const) expect(dependencies(root, state, extent).check()).toBe("fresh");
});

test("npm start after a change keeps the tools of a contributor, and has none to keep elsewhere", async () => {
  await dependencies(root, state, "all").install(withNpm("1.0.0"));
  lockfile("1.1.0");
  const contributor = withNpm("1.1.0");
  await dependencies(root, state, "production").install(contributor);
  expect(contributor.calls[0]).toMatch(/^npm install --no-save .* --include dev$/);
  expect(dependencies(root, state, "all").check()).toBe("fresh");

  installed("1.1.0", false);
  lockfile("1.2.0");
  const user = withNpm("1.2.0");
  await dependencies(root, state, "production").install(user);
  expect(user.calls[0]).toMatch(/^npm install --no-save .* --omit dev$/);
});

test("of the ONNX runtimes only this system's is kept", async () => {
  const runtime = (path: string): string => join(root, "node_modules/onnxruntime-node/bin/napi-v6", path);
  const npm = (): string => {
    for (const path of ["linux/x64", "linux/arm64", "darwin/arm64", "win32/x64"])
      mkdirSync(runtime(path), { recursive: true });
    installed("1.0.0");
    return "";
  };
  await dependencies(root, state, "all").install(machine({ programs: { npm } }));
  expect(readdirSync(runtime("linux"))).toEqual(["x64"]);
  expect([readdirSync(runtime("darwin")), readdirSync(runtime("win32"))]).toEqual([[], []]);
});
