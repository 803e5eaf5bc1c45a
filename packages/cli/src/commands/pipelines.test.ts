import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { micros } from "@tutti/units";
import { afterEach, beforeEach, expect, test } from "vitest";
import { dividedBy, fanOutsOf, pipelines, renderPipelines } from "./pipelines.ts";
import { checkPipelines, loadPipelines, readPipelines } from "@tutti/host/pipelines";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tutti-pipelines-"));
});
afterEach(() => rmSync(folder, { recursive: true }));
const write = (file: string, name: string): void =>
  writeFileSync(
    join(folder, file),
    `name: ${name}\nslo: 100ms\nstages:\n  - { name: a, model: m, before: ./f.ts#f }\n  - { name: b, model: n, after: [a], before: ./f.ts#g }\nfinish: ./f.ts#f\n`,
  );

test("every *.yaml file of a folder declares a pipeline; what else lies there is left alone", async () => {
  write("b.yaml", "second");
  write("a.yml", "first");
  writeFileSync(join(folder, "f.ts"), "not yaml: [");
  const specs = await readPipelines(folder);
  expect(specs.map(({ name }) => name)).toEqual(["first", "second"]);
});

test("what can't be read ends with its file and what to do", async () => {
  await expect(readPipelines(join(folder, "none"))).rejects.toThrow(
    `pipelines in ${join(folder, "none")}: there is no such folder`,
  );
  await expect(readPipelines(folder)).rejects.toThrow("no *.yaml file in it declares a pipeline");
  writeFileSync(join(folder, "x.yaml"), "a: [");
  await expect(readPipelines(folder)).rejects.toThrow("x.yaml: ");
  writeFileSync(join(folder, "x.yaml"), "- 1");
  await expect(readPipelines(folder)).rejects.toThrow("x.yaml: a pipeline is a mapping");
  write("x.yaml", "same");
  write("y.yaml", "same");
  await expect(readPipelines(folder)).rejects.toThrow('two pipelines are called "same"');
});

test("every function that doesn't exist is named with its file and line, to the command and to tutti up alike", async () => {
  write("x.yaml", "one");
  const file = join(folder, "x.yaml");
  const nowhere = `${file}:4: before of stage a: there is no ./f.ts\n${file}:6: finish: there is no ./f.ts\n${file}:5: before of stage b: there is no ./f.ts`;
  await expect(pipelines(folder, {})).rejects.toMatchObject({ message: nowhere, exitCode: 1 });
  await expect(checkPipelines(folder, [])).rejects.toThrow(nowhere);
  writeFileSync(join(folder, "f.ts"), "export const f = () => ({});");
  const one = `${file}:5: before of stage b: ./f.ts exports no function g: export function g(step) { … }`;
  await expect(pipelines(folder, {})).rejects.toMatchObject({ message: one, exitCode: 1 });
  await expect(checkPipelines(folder, [])).rejects.toThrow(one);
  await expect(loadPipelines(folder)).rejects.toThrow(one);
  writeFileSync(join(folder, "f.ts"), "export const f = (;");
  await expect(checkPipelines(folder, [])).rejects.toThrow(
    /x\.yaml:4: before of stage a: \.\/f\.ts can't be loaded: .+/,
  );
});

test("a pipeline may not be called like a model", async () => {
  write("x.yaml", "one");
  writeFileSync(join(folder, "f.ts"), "export const f = () => ({});\nexport const g = f;");
  await checkPipelines(folder, ["two"]);
  await checkPipelines(undefined, ["one"]);
  await expect(checkPipelines(folder, ["one"])).rejects.toThrow('a pipeline and a model are both called "one"');
});

test("the list shows each stage's time, in equal parts until its models are profiled", async () => {
  write("x.yaml", "one");
  const [spec] = await readPipelines(folder);
  expect(dividedBy(spec!, new Map())).toMatchObject({
    split: "even",
    stages: [{ untilUs: 50_000 }, { untilUs: 100_000 }],
  });
  const points = [1, 2, 4, 8].map((batchSize) => ({ batchSize, latency: micros(1_000 * batchSize + 4_000) }));
  const profiles = new Map([
    ["m", points],
    ["n", points],
  ]);
  const planned = dividedBy(spec!, profiles, fanOutsOf(["b=10"]));
  expect(planned).toMatchObject({ split: "planned", stages: [{ aloneUs: 5_000 }, { requests: 10 }] });
  expect(renderPipelines([planned])).toMatch(/^one +100 ms +planned +a +m +1 +50 ms +5 ms$/m);
  for (const bad of ["b", "b=", "=1", "b=-1", "b=x"]) expect(() => fanOutsOf([bad])).toThrow("--fan-out");
});
