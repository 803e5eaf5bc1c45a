import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readNpy } from "@tutti/onnx-tools";
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

const Y = { type: "FP32", dims: [1, 2], data: Float32Array.of(1, 2.5) } as const;

test("a result is there as a whole or not at all, and counts for its own job only", async () => {
  const path = join(folder, "out/a.npy.json");
  const has = (id: string) => hasResult(path, id, "json");
  expect(await has("1")).toBe(false);
  await writeResult(path, { id: "1" }, { outputs: { y: Y }, format: "json" });
  expect([await has("1"), await has("2")]).toEqual([true, false]);
  expect(await readdir(join(folder, "out"))).toEqual(["a.npy.json"]);
  await writeFile(path, (await readFile(path, "utf8")).slice(0, 5));
  expect(await has("1")).toBe(false);
});

test("with npy each output is an array of its own, and a result in another form is none", async () => {
  const path = join(folder, "arrays/b.npy.json");
  await writeResult(path, { id: "1" }, { outputs: { y: Y, "a/b": Y, a_b: Y }, format: "npy" });
  const names = (await readdir(join(folder, "arrays"))).sort();
  expect(names).toEqual(["b.npy.a_b-2.npy", "b.npy.a_b.npy", "b.npy.json", "b.npy.y.npy"]);
  expect(JSON.parse(await readFile(path, "utf8"))).toMatchObject({
    id: "1",
    outputs: [{ name: "y", datatype: "FP32", shape: [1, 2], npy: "b.npy.y.npy" }, {}, {}],
  });
  const { type, dims, data } = readNpy(await readFile(join(folder, "arrays/b.npy.y.npy")), { name: "y" });
  expect([type, dims, [...new Float32Array(data.buffer)]]).toEqual(["FP32", [1, 2], [1, 2.5]]);
  expect([await hasResult(path, "1", "npy"), await hasResult(path, "1", "json")]).toEqual([true, false]);
});

test("outputs whose names don't differ as file names, or are too long for one, are files of their own", async () => {
  const path = join(folder, "clash/c.npy.json");
  const names = ["é", "è", "ê", "_-2", "y", "Y", "x".repeat(300), "x".repeat(301)];
  const outputs = Object.fromEntries(names.map((name, i) => [name, { ...Y, data: Float32Array.of(i, i) }]));
  await writeResult(path, { id: "1" }, { outputs, format: "npy" });
  const told = (JSON.parse(await readFile(path, "utf8")) as { outputs: { npy: string }[] }).outputs;
  expect(new Set(told.map(({ npy }) => npy.toLowerCase())).size).toBe(names.length);
  for (const [i, { npy }] of told.entries()) {
    const { data } = readNpy(await readFile(join(folder, "clash", npy)), { name: npy });
    expect([...new Float32Array(data.buffer)]).toEqual([i, i]);
  }
});

test("a result that can't be written says which file, and no more", async () => {
  const path = join(folder, `${"d".repeat(260)}.npy.json`);
  const failure = writeResult(path, { id: "1" }, { outputs: { y: Y }, format: "json" });
  await expect(failure).rejects.toThrow(/^its result can't be written: ENAMETOOLONG/);
  if (process.platform !== "linux") return;
  const nowhere = writeResult("/proc/self/tutti/a.json", { id: "1" }, { outputs: { y: Y }, format: "json" });
  await expect(nowhere).rejects.toThrow(/^its result can't be written: ENOENT/);
});
