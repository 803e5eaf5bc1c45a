import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { hasResult, jobFiles, jobIdOfFile, writeResult } from "./job-files.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-job-files-"));
  await mkdir(join(folder, "in/deep"), { recursive: true });
  for (const name of ["a.npy", "b.json", "deep/a.npy", "notes.txt", ".hidden.npy"])
    await writeFile(join(folder, "in", name), name);
});
afterAll(() => rm(folder, { recursive: true }));

test("a folder stands for all files below it that a model reads, each with a result of its own", async () => {
  const files = await jobFiles(join(folder, "in"), "out");
  expect(files.map(({ out }) => out)).toEqual(["out/a.npy.json", "out/b.json.json", "out/deep/a.npy.json"]);
});

test("a list names its files by line, relative to itself", async () => {
  const list = join(folder, "list.txt");
  await writeFile(list, "in/b.json\n\nin/deep/a.npy\nin/b.json\n");
  const files = await jobFiles(list, "out");
  expect(files.map(({ path }) => path)).toEqual([join(folder, "in/b.json"), join(folder, "in/deep/a.npy")]);
  for (const [text, why] of [
    ["in/b.json\nin/none.npy\n", `list.txt:2: there is no file ${join(folder, "in/none.npy")}`],
    ["in/notes.txt\n", "list.txt:1: in/notes.txt is none of .json, .npy"],
    ["\n", "has no files that a model reads"],
  ] as const) {
    await writeFile(list, text);
    await expect(jobFiles(list, "out")).rejects.toThrow(why);
  }
  await expect(jobFiles(join(folder, "absent"), "out")).rejects.toThrow("absent");
});

test("two files whose results would have one name are refused before anything is submitted", async () => {
  const inner = join(folder, "in/deep/list.txt");
  await writeFile(inner, "../a.npy\na.npy\n");
  await expect(jobFiles(inner, "out")).rejects.toThrow("would have one result");
  await rm(inner);
});

test("results inside the folder, and hidden folders, are no inputs", async () => {
  const inputs = join(folder, "in");
  for (const inner of ["out/deep", ".git"]) await mkdir(join(inputs, inner), { recursive: true });
  for (const name of ["out/a.npy.json", "out/deep/a.npy.json", ".git/a.npy", "outer.json"])
    await writeFile(join(inputs, name), "");
  const paths = (await jobFiles(inputs, join(inputs, "out"))).map(({ path }) => relative(inputs, path));
  expect(paths).toEqual(["a.npy", "b.json", "deep/a.npy", "outer.json"]);
  await expect(jobFiles(inputs, `${inputs}/`)).rejects.toThrow("need one of their own");
  for (const name of ["out", ".git", "outer.json"]) await rm(join(inputs, name), { recursive: true });
});

test("the same bytes for the same model are the same job, and a name of a subject", () => {
  const bytes = new TextEncoder().encode("x");
  const id = jobIdOfFile(bytes, { app: "a", model: "mlp" });
  expect(id).toMatch(/^[0-9a-f]{40}$/);
  expect(jobIdOfFile(bytes, { app: "a", model: "mlp" })).toBe(id);
  const others = [
    { app: "b", model: "mlp" },
    { app: "a", model: "cnn" },
    { app: "a", model: "mlp", outputs: "y" },
  ].map((of) => jobIdOfFile(bytes, of));
  expect(new Set([id, ...others]).size).toBe(4);
});

test("a result is there as a whole or not at all, and counts for its own job only", async () => {
  const path = join(folder, "out/a.npy.json");
  expect(await hasResult(path, "1")).toBe(false);
  await writeResult(path, { id: "1", outputs: [] });
  expect([await hasResult(path, "1"), await hasResult(path, "2")]).toEqual([true, false]);
  expect(await readdir(join(folder, "out"))).toEqual(["a.npy.json"]);
  await writeFile(path, (await readFile(path, "utf8")).slice(0, 5));
  expect(await hasResult(path, "1")).toBe(false);
});
