import { chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readCredentials } from "../credentials.ts";
import { writeCredentials } from "./credentials-files.ts";
import { findNatsServer } from "./nats-binary.ts";
import { natsConfig } from "./nats-config.ts";
import { usersOf } from "./users.ts";

let dir = "";
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "tutti-config-"));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

const users = usersOf({ cluster: "main", apps: ["camera"] });

test("the server listens on loopback, stores in files and takes messages of 8 MB", () => {
  const config = natsConfig({ port: 0, storeDir: "/var/lib/tutti" });
  expect(config).toContain('listen: "127.0.0.1:-1"');
  expect(config).toContain("max_payload: 8388608");
  expect(config).toMatch(/jetstream \{\s+store_dir: "\/var\/lib\/tutti"\s+\}/);
  expect(config).not.toContain("http:");
  expect(config).toContain("max_connections: 8192");
  expect(config).not.toContain("authorization");
});

test("users without credentials are refused where others than this machine can connect", () => {
  const withKeys = users.map((user) => ({ ...user, publicKey: "U" }));
  const config = (host: string) =>
    natsConfig({ host, port: 4222, storeDir: "s", users: withKeys, withLocalUser: true });
  expect(config("127.0.0.1")).toContain('no_auth_user: "local"');
  expect(() => config("0.0.0.0")).toThrow(/give applications credentials/);
});

test("no two users share an inbox, and nobody but the operator may subscribe above one", () => {
  const prefixes = users.map(({ inboxPrefix }) => inboxPrefix);
  expect(new Set(prefixes).size).toBe(prefixes.length);
  for (const user of users) {
    expect(user.subscribe.some((pattern) => [">", "*.>", "_INBOX_*.>", "tutti.>"].includes(pattern))).toBe(false);
    if (user.name !== "admin") expect(user.subscribe).not.toContain("_INBOX.>");
  }
});

test("no application gets a name under which it would hear an operator or a role", () => {
  const operator = users.find(({ name }) => name === "admin")?.inboxPrefix.replace("_INBOX.", "") ?? "";
  for (const app of [operator, "cli", "tutti-operator", "node"])
    expect(() => usersOf({ cluster: "main", apps: ["shop", app] })).toThrow(`"${app}" is reserved`);
});

test("credential files are their owner's alone, and stay the same when they are written again", async () => {
  const folder = join(dir, "creds");
  const first = writeCredentials(folder, users);
  const again = writeCredentials(folder, users);
  expect(again.map(({ publicKey }) => publicKey)).toEqual(first.map(({ publicKey }) => publicKey));
  expect(new Set(first.map(({ publicKey }) => publicKey)).size).toBe(users.length);
  for (const { path, inboxPrefix } of first) {
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(await readFile(path, "utf8")).toContain(`# inbox-prefix: ${inboxPrefix}\n`);
    expect(readCredentials(path)).toMatchObject({ kind: "file" });
  }
});

test("a file without a seed is no credentials", async () => {
  const path = join(dir, "empty.nk");
  await writeFile(path, "# nothing\n");
  expect(() => readCredentials(path)).toThrow(/neither an nkey seed/);
  expect(() => readCredentials(join(dir, "absent.nk"))).toThrow(/cannot be read/);
});

test("the server named in the environment wins, then the one that setup remembers, then the path", async () => {
  const binary = async (folder: string): Promise<string> => {
    await mkdir(join(dir, folder), { recursive: true });
    const path = join(dir, folder, "nats-server");
    await writeFile(path, "#!/bin/sh\n");
    await chmod(path, 0o755);
    return path;
  };
  const [named, remembered, onPath] = [await binary("named"), await binary("remembered"), await binary("path")];
  const inside = join(dir, "repository", "packages", "x");
  await mkdir(inside, { recursive: true });
  const PATH = join(dir, "path");
  expect(findNatsServer(inside, { PATH })).toBe(onPath);
  await mkdir(join(dir, "repository", ".tutti"));
  await writeFile(join(dir, "repository", ".tutti", "nats-server.json"), JSON.stringify({ path: remembered }));
  expect(findNatsServer(inside, { PATH })).toBe(remembered);
  expect(findNatsServer(inside, { PATH, TUTTI_NATS_SERVER: named })).toBe(named);
  expect(() => findNatsServer(inside, { PATH, TUTTI_NATS_SERVER: join(dir, "absent") })).toThrow(/cannot be run/);
});
