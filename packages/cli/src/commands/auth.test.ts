import { X509Certificate, createPrivateKey } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, expect, test, vi } from "vitest";
import { type AuthInitOptions, addApp, certificate, init, renew, revoke, write } from "./auth.ts";
import { AuthDirectory } from "@tutti/admin/auth";
import { createAuthority, signServer } from "@tutti/admin/certificates";

const root = mkdtempSync(join(tmpdir(), "tutti-auth-unit-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let dir = "";
let said = "";
let count = 0;
beforeEach(() => {
  dir = join(root, `auth-${count++}`);
  said = "";
  vi.spyOn(process.stdout, "write").mockImplementation((text) => ((said += String(text)), true));
});

const made = (over: Partial<AuthInitOptions> = {}): Promise<void> =>
  init({ dir, cluster: "main", app: ["camera"], host: "127.0.0.1", port: "4222", json: true, ...over });
const config = (name = "nats.conf"): string => readFileSync(join(dir, name), "utf8");

test("a second init changes nothing unless it is forced, and then every key is another", async () => {
  await made();
  const seed = (): string => readFileSync(join(dir, "creds", "ingress.nk"), "utf8");
  const before = [seed(), config()];
  await expect(made()).rejects.toThrow(/--force makes new ones/);
  expect([seed(), config()]).toEqual(before);
  await made({ force: true });
  expect(seed()).not.toBe(before[0]);
});

test("the configuration knows public keys alone, of the roles and applications that there are", async () => {
  await made();
  await addApp("shop", { dir });
  const users = AuthDirectory.open(dir).users;
  for (const { publicKey } of users) expect(config()).toContain(publicKey);
  for (const name of readdirSync(join(dir, "creds"))) {
    const seed = /^SU\w+$/m.exec(readFileSync(join(dir, "creds", name), "utf8"))?.[0] ?? "none";
    for (const file of ["nats.conf", "auth.json"]) expect(readFileSync(join(dir, file), "utf8")).not.toContain(seed);
  }
  const shop = users.find(({ name }) => name === "app-shop")?.publicKey ?? "";
  await revoke("shop", { dir });
  expect(config()).not.toContain(shop);
  expect(existsSync(join(dir, "creds", "app-shop.nk"))).toBe(false);
  await expect(revoke("shop", { dir })).rejects.toThrow(/nobody is called shop here: there are ingress/);
  await expect(addApp("camera", { dir })).rejects.toThrow(/tutti auth renew camera/);
  await renew("executor", { dir });
  expect(AuthDirectory.open(dir).users).toHaveLength(users.length - 1);
});

test("servers of one cluster have a port each, the same password, and each other's addresses", async () => {
  await made({ natsCluster: "3" });
  const configs = [0, 1, 2].map((i) => config(`nats-${i}.conf`));
  expect(configs.map((text) => /listen: "127.0.0.1:(\d+)"/.exec(text)?.[1])).toEqual(["4222", "4223", "4224"]);
  const routes = configs.map((text) => /routes: \[(.*)\]/.exec(text)?.[1]);
  expect(new Set(routes).size).toBe(1);
  for (const port of [6222, 6223, 6224])
    expect(routes[0]).toMatch(new RegExp(`nats-route://route:[\\w-]{32}@127.0.0.1:${port}"`));
  expect(statSync(join(dir, "nats-0.conf")).mode & 0o77).toBe(0);
});

test("users and the routes' password are also files of their own, for a configuration that includes them", async () => {
  await made({ natsCluster: "3" });
  const [users, password] = [config("users.conf"), config("route-password")];
  for (const name of ["nats-0.conf", "nats-2.conf"]) {
    expect(config(name).endsWith(users)).toBe(true);
    expect(config(name)).toContain(`nats-route://route:${password}@`);
  }
  for (const name of ["users.conf", "route-password"]) expect(statSync(join(dir, name)).mode & 0o77).toBe(0);
  const before = config("users.conf");
  await revoke("camera", { dir });
  expect(config("users.conf")).not.toBe(before);
});

test("flags that make no sense are refused before anything is written", async () => {
  const refused = (over: Partial<AuthInitOptions>) => expect(made(over)).rejects;
  await refused({ app: ["a.b"] }).toThrow(/--app: "a.b" is no name/);
  await refused({ cluster: "*" }).toThrow(/--cluster \*/);
  await refused({ expires: "soon" }).toThrow(/--expires soon/);
  await refused({ natsCluster: "0" }).toThrow(/--nats-cluster 0/);
  await refused({ host: "a,b", natsCluster: "3" }).toThrow(/2 hosts for 3 servers/);
  await refused({ tlsCert: "c" }).toThrow(/go together/);
  await refused({ tlsCa: "a", tlsCert: "b", tlsKey: "c" }).toThrow(/there is no file a/);
  await refused({ tls: true, tlsCa: "a" }).toThrow(/--tls makes certificates/);
  expect(existsSync(dir)).toBe(false);
  await made();
  await expect(addApp("brief", { dir, expires: "1h" })).rejects.toThrow(/--jwt/);
  await expect(addApp("no name", { dir })).rejects.toThrow(/no name of an application/);
  await expect(addApp("x", { dir: join(dir, "none") })).rejects.toThrow(/tutti auth init/);
});

test("no application gets a name that commands or roles have, and no role loses its key to such a one", async () => {
  for (const app of ["cli", "doctor", "admin", "tutti-infer", "ranker"])
    await expect(made({ app: ["camera", app] })).rejects.toThrow(`--app: "${app}" is reserved for Tutti itself`);
  expect(existsSync(dir)).toBe(false);
  await made();
  const before = readFileSync(join(dir, "auth.json"), "utf8");
  for (const app of ["cli", "admin", "app-camera"]) {
    await expect(addApp(app, { dir })).rejects.toThrow(`"${app}" is reserved for Tutti itself`);
    expect(readFileSync(join(dir, "auth.json"), "utf8")).toBe(before);
  }
  await expect(renew("app-cli", { dir })).rejects.toThrow('"cli" is reserved');
});

test("a deployment in which an older release let an application be called cli is told how to take that back", async () => {
  await made();
  const path = join(dir, "auth.json");
  const renamed = readFileSync(path, "utf8").replace('"app-camera"', '"app-cli"');
  writeFileSync(path, renamed);
  await expect(write({ dir })).rejects.toThrow("`tutti auth revoke app-cli` takes its credentials back");
  await revoke("app-cli", { dir });
  await write({ dir });
  expect(config()).not.toContain("app-cli");
});

test("tokens carry their end, and a configuration changes only for who is revoked", async () => {
  await made({ expires: "30d" });
  const days = AuthDirectory.open(dir).users.map(({ name, expiresAt = 0 }) => [
    name,
    Math.round((expiresAt - Date.now() / 1_000) / 86_400),
  ]);
  expect(Object.fromEntries(days)).toMatchObject({ "app-camera": 30 });
  expect(AuthDirectory.open(dir).users.find(({ name }) => name === "ingress")?.expiresAt).toBeUndefined();
  const before = config();
  expect(before.endsWith(config("users.conf"))).toBe(true);
  await addApp("shop", { dir, expires: "1h" });
  expect(config()).toBe(before);
  await revoke("shop", { dir });
  expect(config()).not.toBe(before);
});

test("a process id that a dead server left behind is never signalled", async () => {
  await made();
  let hangups = 0;
  const note = (): void => void hangups++;
  process.on("SIGHUP", note);
  writeFileSync(join(dir, "nats.pid"), `${process.pid}\n`);
  said = "";
  await revoke("camera", { dir, json: true });
  expect(JSON.parse(said)).toMatchObject({ reloaded: 0 });
  await new Promise((resolve) => setImmediate(resolve));
  process.off("SIGHUP", note);
  expect(hangups).toBe(0);
});

test("certificates are good for their hosts and their time, signed by the authority, which signs nothing but servers", async () => {
  const authority = await createAuthority("main", 10);
  const { certificate: pem, key } = await signServer(authority, ["ingress.example", "10.0.0.7"], 5);
  const [ca, server] = [new X509Certificate(authority.certificate), new X509Certificate(pem)];
  expect([ca.ca, server.ca]).toEqual([true, false]);
  expect(server.verify(ca.publicKey)).toBe(true);
  expect(server.checkIssued(ca)).toBe(true);
  expect(server.checkPrivateKey(createPrivateKey(key))).toBe(true);
  expect([server.checkHost("ingress.example"), server.checkHost("other.example")]).toEqual([
    "ingress.example",
    undefined,
  ]);
  expect(server.checkIP("10.0.0.7")).toBe("10.0.0.7");
  expect(Math.round((Date.parse(server.validTo) - Date.now()) / 86_400_000)).toBe(5);
  await made({ tls: true });
  await certificate("far", { dir, hosts: "far.example", days: "3", json: true });
  const far = new X509Certificate(readFileSync(join(dir, "tls", "far.pem"), "utf8"));
  expect([
    far.checkHost("far.example"),
    far.verify(new X509Certificate(readFileSync(join(dir, "tls", "ca.pem"))).publicKey),
  ]).toEqual(["far.example", true]);
  await expect(certificate("x/y", { dir, hosts: "a", days: "3" })).rejects.toThrow(/becomes a file's name/);
});
