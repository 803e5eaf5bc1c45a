import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, expect, test, vi } from "vitest";
import { addKey, listKeys, revokeKey, setQuota } from "./api-keys.ts";
import { init } from "./auth.ts";
import { API_KEYS_FILE, type ApiKeys, apiKeyId, createApiKey, parseApiKeys, sha256Of } from "@tutti/admin/api-keys";

const root = mkdtempSync(join(tmpdir(), "tutti-keys-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let dir = "";
let said = "";
let count = 0;
beforeEach(() => {
  dir = join(root, `auth-${count++}`);
  said = "";
  vi.spyOn(process.stdout, "write").mockImplementation((text) => ((said += String(text)), true));
});
const file = (): string => readFileSync(join(dir, API_KEYS_FILE), "utf8");
const stored = (): ApiKeys => parseApiKeys(file());

test("a key is shown once and stored as its hash alone, for its owner's eyes", () => {
  addKey("shop", { dir, json: true });
  const { key, id } = JSON.parse(said) as { key: string; id: string };
  expect(apiKeyId(key)).toBe(id);
  const secret = key.slice(`tutti_${id}_`.length);
  expect(Buffer.from(secret, "base64url").byteLength * 8).toBe(256);
  expect(stored().keys).toEqual([
    { id, app: "shop", isAdmin: false, sha256: sha256Of(key).toString("hex"), createdAt: expect.any(Number) as number },
  ]);
  expect(file()).not.toContain(secret);
  expect(statSync(join(dir, API_KEYS_FILE)).mode & 0o77).toBe(0);
  expect(statSync(dir).mode & 0o77).toBe(0);
});

test("keys are listed without what could be used, and one that is revoked is gone", () => {
  addKey("shop", { dir });
  addKey("operations", { dir, admin: true, expires: "30d" });
  const [shop, operations] = stored().keys;
  expect(Math.round((operations!.expiresAt! - Date.now() / 1_000) / 86_400)).toBe(30);
  said = "";
  listKeys({ dir });
  expect(said).toMatch(new RegExp(`${operations!.id} +operations +admin`));
  expect(said).not.toContain(shop!.sha256);
  revokeKey(shop!.id, { dir });
  expect(stored().keys.map(({ id }) => id)).toEqual([operations!.id]);
  expect(() => revokeKey(shop!.id, { dir })).toThrow(/there is no key/);
});

test("a folder without keys says that it has none", () => {
  listKeys({ dir });
  expect(said).toBe("no keys\n");
});

test("quotas are set and taken away, of one application and of all others", () => {
  addKey("shop", { dir });
  setQuota("shop", { dir, rate: "200", bytes: "64MB" });
  setQuota("*", { dir, rate: "0.5" });
  expect(stored().quotas).toEqual({
    shop: { requestsPerSecond: 200, bytesInFlight: 64_000_000 },
    "*": { requestsPerSecond: 0.5 },
  });
  setQuota("shop", { dir });
  expect(stored()).toMatchObject({ quotas: { "*": { requestsPerSecond: 0.5 } }, keys: [{ app: "shop" }] });
  for (const wrong of [{ rate: "0" }, { rate: "fast" }, { bytes: "-1" }, { bytes: "lots" }])
    expect(() => setQuota("shop", { dir, ...wrong })).toThrow(/--(rate|bytes)/);
});

test("names and times that make no sense are refused before anything is written", () => {
  expect(() => addKey("a.b", { dir })).toThrow(/no name of an application/);
  expect(() => addKey("_a", { dir })).toThrow(/a letter or digit first/);
  expect(() => addKey("doctor", { dir })).toThrow(/reserved for Tutti itself/);
  expect(() => addKey("shop", { dir, expires: "soon" })).toThrow(/--expires soon/);
  expect(existsSync(dir)).toBe(false);
});

test("a file that is not what was written is refused whole, with its name", () => {
  addKey("shop", { dir });
  const good = stored();
  const wrong = [
    ...["", "{", "[]", "null", "{}"],
    ...[{ version: 2 }, { keys: {} }, { keys: [null] }, { quotas: null }].map((part) => ({ ...good, ...part })),
    ...[{ sha256: "" }, { app: "*" }, { isAdmin: 1 }, { id: "x" }, { expiresAt: "never" }].map((part) => ({
      ...good,
      keys: [{ ...good.keys[0], ...part }],
    })),
    ...[{ "a b": {} }, { shop: 7 }, { shop: { rate: 1 } }, { shop: { requestsPerSecond: -1 } }].map((quotas) => ({
      ...good,
      quotas,
    })),
  ].map((value) => (typeof value === "string" ? value : JSON.stringify(value)));
  for (const text of wrong) {
    expect(() => parseApiKeys(text), text).toThrow();
    writeFileSync(join(dir, API_KEYS_FILE), text);
    expect(() => listKeys({ dir }), text).toThrow(API_KEYS_FILE);
  }
});

test("no two keys share an id or a text, and a new deployment voids those of the old one", async () => {
  const made = Array.from({ length: 100 }, () => createApiKey("shop", { isAdmin: false, expiresAt: undefined }));
  expect(new Set(made.flatMap(({ text, key }) => [text, key.id])).size).toBe(200);
  addKey("shop", { dir });
  await init({ dir, cluster: "main", app: [], host: "127.0.0.1", port: "4222" });
  expect(existsSync(join(dir, API_KEYS_FILE))).toBe(true);
  await init({ dir, cluster: "main", app: [], host: "127.0.0.1", port: "4222", force: true });
  expect(existsSync(join(dir, API_KEYS_FILE))).toBe(false);
});
