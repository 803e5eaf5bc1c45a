import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Micros, millis } from "@tutti/units";
import { afterAll, beforeAll, expect, test } from "vitest";
import { LocatedYaml } from "@tutti/sim-report/scenarios";
import { mixOf, mixOfTrace, readMix } from "./mix.ts";

let folder: string;
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), "tutti-mix-"))));
afterAll(() => rmSync(folder, { recursive: true }));

const entry = (model: string, app: string, weight: number): object => ({
  model,
  app,
  weight,
  slo: undefined,
  input: undefined,
});

test("a mix in words has models, applications and weights", async () => {
  expect(await readMix("ocr-rec.web:3,mlp.batch:1", "bench")).toEqual([
    entry("ocr-rec", "web", 3),
    entry("mlp", "batch", 1),
  ]);
  expect(await readMix("mlp", "bench")).toEqual([entry("mlp", "bench", 1)]);
  expect(await readMix("mlp/2.web:3,mlp/1", "bench")).toEqual([entry("mlp/2", "web", 3), entry("mlp/1", "bench", 1)]);
  expect(await readMix("mlp:0.5, ctr.x", "bench")).toEqual([entry("mlp", "bench", 0.5), entry("ctr", "x", 1)]);
});

test.each(["", "mlp.", "mlp.a.b", "mlp:0", "mlp:-1", "mlp:x", "a b", "mlp/", "mlp,,ctr"])(
  "%j is no mix, and the failure says what is one",
  async (text) => {
    await expect(readMix(text, "bench")).rejects.toThrow("write model.app:weight");
  },
);

test("a stream named twice is refused, since its weight would be a guess", async () => {
  await expect(readMix("mlp.a:1,mlp.a:2", "bench")).rejects.toThrow("mlp.a twice");
});

test("a mix in a file has SLOs, and inputs that lie beside it", async () => {
  const path = join(folder, "mix.yaml");
  writeFileSync(
    path,
    "streams:\n  - { model: ocr-rec, app: web, weight: 3, slo: 200ms, input: line.png }\n  - { model: mlp, slo: 50 }\n",
  );
  expect(await readMix(path, "bench")).toEqual([
    { model: "ocr-rec", app: "web", weight: 3, slo: millis(200), input: join(folder, "line.png") },
    { model: "mlp", app: "bench", weight: 1, slo: millis(50), input: undefined },
  ]);
  await expect(readMix(join(folder, "none.yaml"), "bench")).rejects.toThrow("ENOENT");
});

test("what is wrong in a file is told by its line, all of it at once", () => {
  const text =
    "streams:\n  - { model: a b, weight: 0 }\n  - { modle: mlp }\n  - { model: mlp, slo: soon, app: 7 }\n  - 3\n  - { model: mlp, slo: 100h }\n";
  const read = (): unknown => mixOf(new LocatedYaml(text, "mix.yaml"), { app: "bench", folder: "." });
  expect(read).toThrow(/mix\.yaml:2:\d+: streams\[0\]\.model: a name/);
  expect(read).toThrow(/mix\.yaml:2:\d+: streams\[0\]\.weight: a number above 0, not 0/);
  expect(read).toThrow(/mix\.yaml:3:\d+: streams\[1\]\.modle: no key of a stream/);
  expect(read).toThrow(/mix\.yaml:4:\d+: streams\[2\]\.slo: a length of time/);
  expect(read).toThrow(/mix\.yaml:6:\d+: streams\[4\]\.slo: a length of time up to 10 min/);
  expect(read).toThrow(/mix\.yaml:5:\d+: streams\[3\]: a map with a model/);
  for (const empty of ["", "streams: []", "models: 3", "3"])
    expect(() => mixOf(new LocatedYaml(empty, "mix.yaml"), { app: "bench", folder: "." })).toThrow("streams:");
});

test("a trace's streams are its pairs of model and application, weighted as they come", () => {
  const at = 0 as Micros;
  const entries = ["web", "", "web"].map((app) => ({ at, model: "mlp", app, slo: undefined }));
  const { mix, entries: named } = mixOfTrace(entries, "bench");
  expect(mix).toEqual([entry("mlp", "web", 2), entry("mlp", "bench", 1)]);
  expect(named.map(({ app }) => app)).toEqual(["web", "bench", "web"]);
  expect(() => mixOfTrace([{ at, model: "a.b", app: "x", slo: undefined }], "bench")).toThrow('asks for "a.b"');
});
