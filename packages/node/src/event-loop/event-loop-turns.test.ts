import { afterEach, expect, test } from "vitest";
import { EventLoopTurns } from "./event-loop-turns.ts";

let turns: EventLoopTurns | undefined;
afterEach(() => turns?.stop());

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
function work(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

test("each turn counts with its length, and the time in which the loop waits doesn't", async () => {
  turns = new EventLoopTurns();
  await nextTurn();
  turns.read();
  for (let i = 0; i < 40; i++) {
    work(1);
    await nextTurn();
  }
  await wait(200);
  work(30);
  await nextTurn();
  await nextTurn();
  const { p50Us, maxUs } = turns.read().sinceRead;
  expect(p50Us).toBeGreaterThanOrEqual(1_000);
  expect(maxUs).toBeGreaterThanOrEqual(30_000);
  expect(maxUs).toBeLessThan(200_000);
});

test("a reading begins anew, while the last minute keeps what was", async () => {
  turns = new EventLoopTurns();
  await nextTurn();
  work(20);
  await nextTurn();
  await nextTurn();
  expect(turns.read().sinceRead.maxUs).toBeGreaterThanOrEqual(20_000);
  await nextTurn();
  const { sinceRead, minute } = turns.read();
  expect(sinceRead.maxUs).toBeLessThan(minute.maxUs);
  expect(minute.maxUs).toBeGreaterThanOrEqual(20_000);
});

test("a loop that has not turned has no turns", () => {
  turns = new EventLoopTurns();
  expect(turns.read().minute).toEqual({ p50Us: 0, p99Us: 0, p999Us: 0, maxUs: 0, gcShare: 0 });
});

test("the share of garbage collection is that of the turns' time", async () => {
  turns = new EventLoopTurns();
  await nextTurn();
  const kept: unknown[] = [];
  for (let i = 0; i < 200; i++) {
    for (let j = 0; j < 5_000; j++) kept[j] = { i, j, text: String(i * j) };
    await nextTurn();
  }
  await wait(10); // collections are told after the turns that they were in
  const { gcShare } = turns.read().minute;
  expect(gcShare).toBeGreaterThan(0);
  expect(gcShare).toBeLessThan(1);
});

test("the probe keeps no process open", async () => {
  const { spawn } = await import("node:child_process");
  const file = new URL("./event-loop-turns.ts", import.meta.url).href;
  const child = spawn(process.execPath, ["-e", `import(${JSON.stringify(file)}).then((m) => new m.EventLoopTurns())`]);
  const code = await new Promise((resolve) => child.once("exit", resolve));
  expect(code).toBe(0);
});
