import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { micros, millis, seconds } from "@tutti/units";
import { afterAll, expect, test } from "vitest";
import { analyse, recordNoise } from "./record-noise.ts";
import { noiseLines, readNoise } from "@tutti/sim-report/scenarios";

const folder = mkdtempSync(join(tmpdir(), "tutti-noise-"));
afterAll(() => rmSync(folder, { recursive: true }));
const file = (lines: readonly string[]): string => {
  const path = join(folder, "noise.jsonl");
  writeFileSync(path, lines.join("\n"));
  return path;
};
const stalls = [
  { at: micros(500), length: micros(700) },
  { at: micros(9_000), length: micros(1_000) },
];

test("a recording is read as it was written", async () => {
  const path = file(noiseLines({ length: seconds(1), every: millis(5), stalls, factors: [1, 1.25] }));
  expect(await readNoise(path, "machine")).toEqual({
    stalls: { kind: "recorded", scope: "machine", length: 1_000_000, stalls },
    slow: { kind: "recorded", every: 5_000, factors: [1, 1.25] },
  });
});

const HEAD = `{"noise":1,"seconds":1,"everyUs":5000,"factors":[1]}`;
test.each([
  [[], ":1: it doesn't begin as a recording"],
  [[`{"noise":2,"seconds":1,"everyUs":5000,"factors":[1]}`], ":1: it doesn't begin as a recording"],
  [[`{"noise":1,"seconds":1,"everyUs":5000,"factors":[0]}`], ":1: it doesn't begin as a recording"],
  [[HEAD, "{"], ":2: no JSON"],
  [[HEAD, `{"at":5,"us":0}`], ":2: a standstill is"],
  [[HEAD, `{"at":5,"us":10}`, `{"at":14,"us":10}`], ":3: a standstill is"],
  [[HEAD, `{"at":999995,"us":10}`], ":2: a standstill is"],
])("what is wrong with a recording is told by line: %j", async (lines, text) => {
  await expect(readNoise(file(lines), "machine")).rejects.toThrow(text);
});

test("this machine's noise can be recorded and read again", async () => {
  const path = join(folder, "own.jsonl");
  recordNoise(path, { seconds: "1" });
  const { slow } = await readNoise(path, "machine");
  expect(slow).toMatchObject({ kind: "recorded", every: 5_000 });
  expect(slow.kind === "recorded" && slow.factors.length).toBe(200);
});

test("standstills don't overlap where the last one outlasts the recording", async () => {
  const steps = Array.from({ length: 100 }, (_, i) => (i + 1) * 0.05); // ms
  const recording = analyse([...steps, 990, 1_400], 0, 1);
  expect(recording.stalls).toEqual([
    { at: 5_050, length: 984_950 },
    { at: 990_050, length: 9_949 },
  ]);
  expect((await readNoise(file(noiseLines(recording)), "machine")).stalls).toMatchObject({ stalls: recording.stalls });
});

test("a file that can't be written is refused before the machine is kept busy, without a stack", () => {
  const path = join(folder, "absent", "noise.jsonl");
  const begin = performance.now();
  expect(() => recordNoise(path, { seconds: "3600" })).toThrow(`${path} can't be written (ENOENT)`);
  expect(performance.now() - begin).toBeLessThan(5_000);
});
