import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Outcome, bothRuns, closingLines, judge, readResult, secondRun } from "../../infra/test/outcome.ts";
import { RESULT_FILE_VARIABLE } from "../../infra/test/reporter.ts";
import { Runner } from "../../infra/test/runner.ts";
import { type Stage, type Suite, allSuites, orderSuites, select, stagesOf } from "../../infra/test/suites.ts";

const root = join(import.meta.dirname, "../..");
const none = { passed: 0, failed: 0, skipped: [], files: [] };

let folder: string;
beforeAll(() => {
  mkdirSync(join(root, ".tutti/cache"), { recursive: true });
  folder = mkdtempSync(join(root, ".tutti/cache/runner-")); // inside, so that its tests find vitest
  mkdirSync(join(folder, "empty"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs one file of tests as the runner does, and judges it. */
async function outcomeOf(name: string, text: string) {
  const home = join(folder, name);
  mkdirSync(home);
  writeFileSync(join(home, "some.test.ts"), `import { test, expect, beforeAll } from "vitest";\n${text}\n`);
  writeFileSync(join(home, "vitest.config.ts"), "export default {};\n");
  const file = join(home, "result.json");
  const args = ["run", "--root", home, "--passWithNoTests", "--reporter", join(root, "infra/test/reporter.ts")];
  const code = await new Promise<number>((resolve) => {
    const env = { ...process.env, [RESULT_FILE_VARIABLE]: file, VITEST: undefined };
    const child = execFile(process.execPath, [join(root, "node_modules/vitest/vitest.mjs"), ...args], {
      env,
      cwd: home,
    });
    child.on("exit", (exit) => resolve(exit ?? 1));
  });
  return judge({ suite: name, code, result: readResult(file), narrowed: "no" });
}

test("passed, failed and skipped tests are counted, and the reason of a skip is kept", async () => {
  const outcome = await outcomeOf(
    "mixed",
    'test("a", () => {});\ntest("b", () => expect(1).toBe(2));\ntest("c", (ctx) => ctx.skip("no Docker daemon answers"));',
  );
  expect(outcome).toMatchObject({ passed: 1, failed: 1, skipped: [{ name: "c", reason: "no Docker daemon answers" }] });
  expect(closingLines([outcome])).toEqual({
    lines: [
      "skipped: mixed: c: no Docker daemon answers",
      "failed: mixed: 1 passed, 1 failed, 1 skipped",
      "1 passed, 1 failed, 1 skipped",
    ],
    exitCode: 1,
  });
});

test.each([
  ["a file that doesn't load", 'import "./missing.ts";'],
  ["a hook that throws", 'beforeAll(() => { throw new Error("x"); });\ntest("a", () => {});'],
  [
    "an error outside any test",
    'test("a", async () => { setTimeout(() => { throw new Error("x"); }, 0); await new Promise((r) => setTimeout(r, 100)); });',
  ],
  ["a process that dies", 'test("a", () => process.kill(process.ppid, "SIGKILL"));'],
  ["a file without tests", "export {};"],
])("%s fails its suite", async (name, text) => {
  expect((await outcomeOf(name.replaceAll(/\W/g, "-"), text)).failed).toBeGreaterThan(0);
});

test("a vitest that exits non-zero though no test failed has failed", () => {
  expect(judge({ suite: "s", code: 1, result: { ...none, passed: 3 }, narrowed: "no" })).toMatchObject({
    passed: 3,
    failed: 1,
  });
});

test("a suite may be empty only when it was narrowed, and nothing at all is a failure", () => {
  expect(judge({ suite: "s", code: 0, result: none, narrowed: "no" }).failed).toBe(1);
  expect(judge({ suite: "s", code: 0, result: none, narrowed: "yes" }).failed).toBe(0);
  expect(closingLines([{ suite: "s", ...none }])).toEqual({
    lines: ["failed: no test ran", "0 passed, 1 failed, 0 skipped"],
    exitCode: 1,
  });
});

test("cheap suites come first, whole systems last, and new folders in between", () => {
  expect(orderSuites(["bench", "e2e", "new", "conformance", "golden", "unit", "boundaries"])).toEqual([
    ...["boundaries", "unit", "golden", "new", "conformance", "e2e", "bench"],
  ]);
});

test("arguments name suites or the group of checks, and paths narrow them", () => {
  const suites = allSuites(root);
  const names = (...args: string[]) => select(suites, args).suites.map((suite) => suite.name);
  expect(names("check")).toEqual(["format", "lint", "types", "types-of-the-console"]);
  expect(names("unit", "packages/units/")).toEqual(["unit"]);
  expect(select(suites, ["unit", "packages/units/"]).filters).toEqual(["packages/units/"]);
  expect(select(suites, ["units"]).unknown).toEqual(["units"]);
  expect(names()).toEqual(suites.map((suite) => suite.name));
});

/** Names of the suites of each stage: those that come first, and those beside them. */
function staged(...names: string[]) {
  const suites = [
    ...allSuites(root).filter(({ name }) => names.includes(name)),
    ...names.filter((name) => name === "new").map((name) => ({ kind: "vitest" as const, name, group: name })),
  ];
  return stagesOf(suites).map(({ first, beside }) => [first.map(({ name }) => name), beside.map(({ name }) => name)]);
}

test("suites that compute fill the time in which others wait, and nothing runs beside what may measure, as a new folder may", () => {
  expect(staged("lint", "unit", "cluster", "setup", "containers", "e2e", "alone", "new")).toEqual([
    [["lint", "unit", "cluster"], ["containers"]],
    [["setup", "alone", "e2e", "new"], []],
  ]);
});

test("every suite is in one stage, and one that would run beside nothing runs as any other", () => {
  const all = allSuites(root);
  const inStages = stagesOf(all).flatMap(({ first, beside }) => [...first, ...beside]);
  expect(inStages.map(({ name }) => name).toSorted()).toEqual(all.map(({ name }) => name).toSorted());
  expect(staged("containers", "e2e")).toEqual([
    [["containers"], []],
    [["e2e"], []],
  ]);
});

/** Runs a stage of commands. @returns what is printed */
async function printedBy(stage: Stage) {
  let text = "";
  const print = (more: string): void => void (text += more);
  const runner = new Runner({ root, results: folder, filters: [], env: {}, print });
  await runner.run(stage);
  return { text, failed: [...runner.outcomes.values()].filter(({ failed }) => failed > 0).map(({ suite }) => suite) };
}
const command = (name: string, code: string): Suite => ({ kind: "command", name, group: name, command: ["-e", code] });

/** A program that writes a file and waits for another, which no event of it tells; says whether it came in time. */
function meeting({ writes, awaits }: Record<"writes" | "awaits", string>): string {
  const [own, other] = [writes, awaits].map((name) => JSON.stringify(join(folder, name)));
  const pause = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5)";
  return `
    fs.writeFileSync(${own}, "");
    while (!fs.existsSync(${other}) && performance.now() < 20_000) ${pause};
    console.log(fs.existsSync(${other}) ? "met" : "alone");`;
}

test("suites beside others run at the same time, and their output is printed together as they end", async () => {
  const { text, failed } = await printedBy({
    first: [command("one", meeting({ writes: "one", awaits: "other" }))],
    beside: [
      command("other", `console.log("begins"); ${meeting({ writes: "other", awaits: "one" })} process.exitCode = 3`),
    ],
  });
  expect(text).toMatch(/== one\nmet\n== one passed in/);
  expect(text).toMatch(/== other\nbegins\nmet\n== other FAILED in/);
  expect(failed).toEqual(["other"]);
});

/** A suite of two files, as the first run or the second left them. */
function ran(suite: string, ...files: Outcome["files"]): Outcome {
  const sum = (value: (file: Outcome["files"][number]) => number) => files.reduce((all, file) => all + value(file), 0);
  return { suite, passed: sum(({ passed }) => passed), failed: sum(({ failed }) => failed), skipped: [], files };
}
const file = (name: string, passed: number, ...failedTests: string[]): Outcome["files"][number] => ({
  ...{ file: name, passed, failed: failedTests.length, skipped: [], failedTests },
});

test("a few files that failed on real clocks run again: what passes then is told as flaky, what fails twice has failed", () => {
  const first = ran("e2e", file("a", 3), file("b", 1, "slow", "wrong"));
  expect(secondRun(first).map((one) => one.file)).toEqual(["b"]);
  const better = bothRuns(first, ran("e2e", file("b", 2, "wrong")));
  expect(better).toMatchObject({ passed: 5, failed: 1, flaky: ["slow"] });
  expect(closingLines([better])).toMatchObject({ exitCode: 1 });
  const well = bothRuns(first, ran("e2e", file("b", 3)));
  expect(closingLines([well])).toEqual({
    lines: [
      "flaky: e2e: slow: failed, and passed when its file ran again",
      "flaky: e2e: wrong: failed, and passed when its file ran again",
      "6 passed, 0 failed, 0 skipped",
    ],
    exitCode: 0,
  });
  const died = judge({ suite: "e2e", code: 1, result: undefined, narrowed: "yes" });
  expect(closingLines([bothRuns(first, died)])).toMatchObject({ exitCode: 1 });
});

test("nothing runs twice where clocks are virtual, where many files fail, or what fails is in no file", () => {
  const failing = ["a", "b", "c"].map((name) => file(name, 0, "x"));
  expect(secondRun(ran("unit", failing[0]!))).toEqual([]);
  expect(secondRun(ran("e2e", ...failing))).toEqual([]);
  expect(secondRun({ ...ran("e2e", failing[0]!), failed: 2 })).toEqual([]);
  expect(secondRun(judge({ suite: "e2e", code: 1, result: undefined, narrowed: "no" }))).toEqual([]);
});
