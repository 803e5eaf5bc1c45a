import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Stall } from "@tutti/simulator";
import { micros, millis, seconds } from "@tutti/units";
import { afterAll, expect, test, vi } from "vitest";
import { analyse, scopedStalls } from "../noise/watched-noise.ts";
import { recordNoise } from "./record-noise.ts";
import { type ScopedStall, noiseLines, readNoise } from "@tutti/sim-report/scenarios";

const folder = mkdtempSync(join(tmpdir(), "tutti-noise-"));
afterAll(() => rmSync(folder, { recursive: true }));
const file = (lines: readonly string[]): string => {
  const path = join(folder, "noise.jsonl");
  writeFileSync(path, lines.join("\n"));
  return path;
};
const stall = (at: number, length: number): Stall => ({ at: micros(at), length: micros(length) });
const scoped = (scope: ScopedStall["scope"], at: number, length: number): ScopedStall => ({
  scope,
  ...stall(at, length),
});

test("a recording is read as it was written: the standstills of each scope, or all as those of the one asked for", async () => {
  const stalls = [scoped("machine", 500, 700), scoped("scheduler", 9_000, 1_000), scoped("machine", 9_500, 200)];
  const path = file(noiseLines({ length: seconds(1), every: millis(5), stalls, factors: [1, 1.25] }));
  const common = { kind: "recorded", length: 1_000_000 };
  expect(await readNoise(path)).toEqual({
    stalls: [
      { ...common, scope: "machine", stalls: [stall(500, 700), stall(9_500, 200)] },
      { ...common, scope: "scheduler", stalls: [stall(9_000, 1_000)] },
    ],
    slow: { kind: "recorded", every: 5_000, factors: [1, 1.25] },
  });
  expect((await readNoise(path, "accelerator")).stalls.map(({ scope }) => scope)).toEqual([
    "accelerator",
    "accelerator",
  ]);
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
  [[HEAD, `{"at":5,"us":10,"scope":"core"}`], ":2: a standstill is"],
])("what is wrong with a recording is told by line: %j", async (lines, text) => {
  await expect(readNoise(file(lines))).rejects.toThrow(text);
});

test("standstills of one process and of another may overlap, and older recordings are of the machine", async () => {
  const lines = [
    HEAD,
    `{"at":5,"us":10,"scope":"scheduler"}`,
    `{"at":8,"us":10,"scope":"accelerator"}`,
    `{"at":9,"us":1}`,
  ];
  expect((await readNoise(file(lines))).stalls.map(({ scope }) => scope)).toEqual([
    "scheduler",
    "accelerator",
    "machine",
  ]);
});

test("this machine's noise can be recorded and read again, and how long each scope stands is printed", async () => {
  const path = join(folder, "own.jsonl");
  const print = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  await recordNoise(path, { seconds: "1" });
  const printed = print.mock.calls.join("");
  print.mockRestore();
  expect(printed).toMatch(/^stands still +a second +median +p99 +of the time\nmachine .*\nscheduler .*\naccelerator /);
  const { slow } = await readNoise(path);
  expect(slow).toMatchObject({ kind: "recorded", every: 5_000 });
  expect(slow.kind === "recorded" && slow.factors.length).toBe(200);
});

test("threads that nap leave the machine its cores, and tell nothing of slow work", async () => {
  const path = join(folder, "light.jsonl");
  const print = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  const before = process.cpuUsage();
  await recordNoise(path, { seconds: "2", light: true });
  const { user, system } = process.cpuUsage(before);
  const printed = print.mock.calls.join("");
  print.mockRestore();
  expect((user + system) / 2e6).toBeLessThan(1); // two threads that work take up to two
  expect(printed).not.toContain("work takes");
  expect((await readNoise(path)).slow).toMatchObject({ factors: [1] });
});

test("a standstill of both threads is the machine's, and what one alone saw beyond it is its own", () => {
  const scheduler = [stall(1_000, 2_000), stall(10_000, 5_000), stall(40_000, 600)];
  const accelerator = [stall(1_100, 1_900), stall(12_000, 1_000), stall(14_000, 500), stall(40_400, 2_000)];
  expect(scopedStalls(scheduler, accelerator)).toEqual([
    scoped("machine", 1_100, 1_900), // what is left of the scheduler's, 100 µs, is no standstill
    scoped("scheduler", 10_000, 2_000),
    scoped("machine", 12_000, 1_000),
    scoped("scheduler", 13_000, 1_000),
    scoped("machine", 14_000, 500),
    scoped("scheduler", 14_500, 500),
    scoped("scheduler", 40_000, 600), // 200 µs of both are too little to be the machine's
    scoped("accelerator", 40_400, 2_000),
  ]);
  const same = [stall(500, 1_000), stall(5_000, 300)];
  expect(scopedStalls(same, same)).toEqual(same.map(({ at, length }) => scoped("machine", at, length)));
});

test("standstills don't overlap where the last one outlasts the recording", async () => {
  const steps = Array.from({ length: 100 }, (_, i) => (i + 1) * 0.05); // ms
  const { stalls, factors } = analyse([...steps, 990, 1_400], 0, 1);
  expect(stalls).toEqual([stall(5_050, 984_950), stall(990_050, 9_949)]);
  const recording = { length: seconds(1), every: millis(5), stalls: scopedStalls(stalls, stalls), factors };
  expect((await readNoise(file(noiseLines(recording)))).stalls).toMatchObject([{ scope: "machine", stalls }]);
});

test("a file that can't be written is refused before the machine is kept busy, without a stack", async () => {
  const path = join(folder, "absent", "noise.jsonl");
  const begin = performance.now();
  await expect(recordNoise(path, { seconds: "3600" })).rejects.toThrow(`${path} can't be written (ENOENT)`);
  expect(performance.now() - begin).toBeLessThan(5_000);
});
