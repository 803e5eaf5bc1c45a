import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { BlobCache, sharedCache } from "./blob-cache.ts";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-cache-"));
});
afterEach(() => rm(folder, { recursive: true }));

const blobs = (): Promise<string[]> => readdir(join(folder, "sha256"));
const sha256Of = (text: string): string => createHash("sha256").update(text).digest("hex");
async function* chunksOf(...texts: readonly (string | Error)[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) {
    if (text instanceof Error) throw text;
    yield Buffer.from(text);
  }
}
const write = (cache: BlobCache, text: string): Promise<unknown> => cache.write(chunksOf(text), () => undefined);

test("a blob lies under its digest only once it is complete (CACHE-1)", async () => {
  const cache = new BlobCache(folder, 1_000);
  await expect(cache.write(chunksOf("ha", new Error("cut off")), () => undefined)).rejects.toThrow("cut off");
  const refuse = (): never => {
    throw new Error("another one");
  };
  await expect(cache.write(chunksOf("hallo"), refuse)).rejects.toThrow("another one");
  expect(await blobs()).toEqual([]);
  const { sha256, bytes } = await cache.write(chunksOf("ha", "llo"), () => undefined);
  expect([sha256, Buffer.from(bytes).toString()]).toEqual([sha256Of("hallo"), "hallo"]);
  expect(await blobs()).toEqual([sha256Of("hallo")]);
  expect(await cache.read(sha256Of("hallo"))).toEqual(new Uint8Array(Buffer.from("hallo")));
});

test("a damaged blob is removed, and counts as absent (CACHE-2)", async () => {
  const cache = new BlobCache(folder, 1_000);
  await write(cache, "hallo");
  await writeFile(join(folder, "sha256", sha256Of("hallo")), "hello");
  expect(await cache.read(sha256Of("hallo"))).toBeUndefined();
  expect(await blobs()).toEqual([]);
});

test("beyond its size the cache forgets what was used longest ago, and what killed writers left (CACHE-3)", async () => {
  const cache = new BlobCache(folder, 10);
  await write(cache, "aaaa");
  await write(cache, "bbbb");
  const old = new Date(Date.now() - 2 * 86_400_000);
  for (const name of ["a", "b"]) await utimes(join(folder, "sha256", sha256Of(name.repeat(4))), old, old);
  await writeFile(join(folder, "sha256", "x.part"), "");
  await utimes(join(folder, "sha256", "x.part"), old, old);
  await cache.read(sha256Of("aaaa")); // used now
  await write(cache, "cccc");
  expect((await blobs()).toSorted()).toEqual([sha256Of("aaaa"), sha256Of("cccc")].toSorted());
  await write(cache, "larger than all");
  expect(await blobs()).not.toContain(sha256Of("larger than all"));
});

test("a place's file is known again, and a torn note is none; its address is not written down", async () => {
  const cache = new BlobCache(folder, 10);
  const place = "https://host/m.onnx?X-Amz-Signature=secret";
  expect(await cache.known(place)).toBeUndefined();
  await cache.remember(place, { etag: '"1"', sha256: sha256Of("a") });
  expect(await cache.known(place)).toEqual({ etag: '"1"', sha256: sha256Of("a") });
  const [name = ""] = await readdir(join(folder, "known"));
  expect(name).not.toContain("secret");
  await writeFile(join(folder, "known", name), '{ "etag": ');
  expect(await cache.known(place)).toBeUndefined();
});

test("of more places than are known the one that was asked longest ago is forgotten", async () => {
  const cache = new BlobCache(folder, 10);
  await mkdir(join(folder, "known"));
  for (let i = 0; i < 1_024; i++) await writeFile(join(folder, "known", `${i}.json`), "{}");
  const old = new Date(0);
  await utimes(join(folder, "known/7.json"), old, old);
  await cache.remember("one more", { etag: '"1"', sha256: sha256Of("a") });
  const names = await readdir(join(folder, "known"));
  expect([names.length, names.includes("7.json")]).toEqual([1_024, false]);
});

test("a folder that can't be written, and a size that is none, are named", async () => {
  await writeFile(join(folder, "file"), "");
  await expect(write(new BlobCache(join(folder, "file"), 10), "a")).rejects.toThrow(
    /file.sha256 can't be written \(ENOTDIR\): make room, or name another folder in TUTTI_MODEL_CACHE/,
  );
  expect(() => sharedCache({ TUTTI_MODEL_CACHE_SIZE: "much" })).toThrow(/TUTTI_MODEL_CACHE_SIZE=much: a size/);
});
