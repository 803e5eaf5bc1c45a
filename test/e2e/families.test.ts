/**
 * A family with real processes. Three variants of one model, served together, give the same answers as each in
 * isolation (docs/families.md).
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Tutti, connect } from "@tutti/client";
import { generateMlp } from "@tutti/onnx-tools";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TuttiUp } from "./tutti-up.ts";

const CLASSES = [3, 5, 9];
/** A long SLO: these tests are not about deadlines. */
const PATIENT = { slo: "20s" } as const;
const LOAD = ["--slo", "2s", "--max-batch", "8", "--patience", "0"] as const;
let up: TuttiUp;
let client: Tutti;
let folder: string;

const row = (seed: number): Float32Array => Float32Array.from({ length: 64 }, (_, i) => Math.sin(seed * 97 + i));
const ask = async (model: string, seed: number): Promise<Float32Array> =>
  (await client.infer(model, { x: row(seed) }, PATIENT)).outputs["y"]!.data as Float32Array;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-families-"));
  for (const classes of CLASSES) {
    const bytes = generateMlp({ seed: 7, widths: [64, 256, 256, classes] });
    for (const name of ["head", "alone"]) await writeFile(join(folder, `${name}-${classes}.onnx`), bytes);
  }
  up = await TuttiUp.start(["--no-demo", "--executors", "1"]);
  client = await connect({ servers: up.url, app: "e2e" });
});
afterAll(async () => {
  await client?.close();
  await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

const paths = (name: string): string[] => CLASSES.map((classes) => join(folder, `${name}-${classes}.onnx`));

test("three variants are loaded as one family, and tutti models --families says what they share", async () => {
  const alone = await up.command("load", ...paths("alone"), "--families", "never", ...LOAD, "--json");
  expect([alone.code, alone.stderr]).toEqual([0, ""]);
  const { code, stderr, stdout } = await up.command(
    ...["load", ...paths("head"), "--family", "heads", "--families", "always", ...LOAD],
  );
  expect([code, stdout]).toEqual([0, expect.stringMatching(/^heads +1 +ready/m)]);
  expect(stderr).toMatch(/^heads: head-3, head-5, head-9 as one family: /m);
  const listed = await up.command("models", "--families", "--json");
  const [family] = JSON.parse(listed.stdout) as [{ bytes: { separate: number; family: number } }];
  expect(family).toMatchObject({
    name: "heads",
    state: "ready",
    prefix: { nodes: 4 },
    models: CLASSES.map((classes) => ({ name: `head-${classes}`, nodes: 5, shared: 4 })),
  });
  expect(family.bytes.family).toBeLessThan(0.4 * family.bytes.separate);
});

test("variants asked for at once answer what their models answer alone, each with its own outputs", async () => {
  const asked = Array.from({ length: 60 }, (_, seed) => ({ seed, classes: CLASSES[seed % 3]! }));
  const together = await Promise.all(asked.map(({ seed, classes }) => ask(`head-${classes}`, seed)));
  const alone = await Promise.all(asked.map(({ seed, classes }) => ask(`alone-${classes}`, seed)));
  together.forEach((found, i) => {
    const expected = alone[i]!;
    expect(found.length).toBe(asked[i]!.classes);
    const scale = Math.max(...expected.map(Math.abs));
    found.forEach((value, at) => expect(Math.abs(value - expected[at]!)).toBeLessThanOrEqual(1e-5 * scale));
  });
});

test("a variant is asked from the command line under its own name; its family is none to ask or to take apart", async () => {
  const asked = await up.command("infer", "head-5", "--slo", "20s", "--json");
  expect(JSON.parse(asked.stdout)).toMatchObject({ model: "head-5", outputs: [{ name: "y", shape: [1, 5] }] });
  const unloaded = await up.command("unload", "head-5");
  expect([unloaded.code, unloaded.stderr]).toEqual([1, expect.stringContaining("served by the family heads")]);
  await expect(ask("heads", 1)).rejects.toMatchObject({ code: "TUTTI_NOT_FOUND" });
});

test("a served model and a served family join a new one under load, and no request is refused or lost by it", async () => {
  const loading = up.command(
    ...["load", join(folder, "head-9.onnx"), "--name", "other-9", "--family", "joined", "--with", "alone-3,heads"],
    ...["--families", "always", ...LOAD],
  );
  let isLoaded = false;
  void loading.then(() => (isLoaded = true));
  const joining = ["alone-3", "head-5"];
  const askAll = (): Promise<string[][]> =>
    Promise.all(joining.map(async (model) => Array.from(await ask(model, 1), (value) => value.toFixed(4))));
  const expected = await askAll();
  let asked = 0;
  while (!isLoaded) {
    expect(await askAll()).toEqual(expected);
    asked++;
  }
  const { code, stderr } = await loading;
  expect(code).toBe(0);
  expect(stderr).toMatch(/^alone-3: now served by joined$/m);
  expect(stderr).toMatch(/^heads: now served by joined$/m);
  expect(asked).toBeGreaterThan(10);
  expect(await askAll()).toEqual(expected);
  expect((await ask("other-9", 1)).length).toBe(9);
});
