import { TuttiError } from "@tutti/protocol";
import { afterEach, expect, test } from "vitest";
import { FairWorkers } from "./fair-workers.ts";

/** Answers after the number of ms in the message; dies where that is negative. */
const SCRIPT = new URL(
  `data:text/javascript,import { parentPort } from "node:worker_threads";
   parentPort.on("message", ({ ms }) => { if (ms < 0) throw new Error("broken"); setTimeout(() => parentPort.postMessage({ ms }), ms); });`,
);
type Slept = { readonly ms: number };
let workers: FairWorkers<Slept>;
afterEach(() => workers.close("the test is over"));
const starting = (threads: number, jobsMax = 64): void => {
  workers = new FairWorkers({ script: SCRIPT, name: "sleeping", jobsMax, full: "full", threads });
};
const run = (owner: string, ms: number, isTooLate = (): boolean => false): Promise<string> =>
  new Promise((resolve) => {
    workers.run({ owner, isTooLate, message: () => [{ ms }, []] }, (outcome) =>
      resolve(outcome instanceof TuttiError ? outcome.code : "ok"),
    );
  });

test("a thread that dies fails its own job alone, and another takes its place", async () => {
  starting(1);
  const outcomes = await Promise.all([run("a", 1), run("a", -1), run("a", 1), run("b", -1), run("b", 1)]);
  expect(outcomes.filter((code) => code === "ok")).toHaveLength(3);
  expect(outcomes[1]).toBe("TUTTI_INTERNAL");
});

test("as many jobs run at once as there are threads, which are started when they are needed", async () => {
  starting(3);
  const startedAt = performance.now();
  await run("a", 0);
  await Promise.all(Array.from({ length: 3 }, () => run("a", 300)));
  expect(performance.now() - startedAt).toBeLessThan(1_500);
});

test("where no more may wait, the last of who has most is refused, and who has most is refused itself", async () => {
  starting(1, 4);
  const flood = Array.from({ length: 6 }, () => run("flood", 5));
  const other = [run("other", 5), run("other", 5)];
  expect(await Promise.all(flood)).toEqual(["ok", "ok", "ok", ...Array<string>(3).fill("TUTTI_OVERLOADED")]);
  expect(await Promise.all(other)).toEqual(["ok", "TUTTI_OVERLOADED"]);
});

test("light jobs take as much room as they weigh", async () => {
  starting(1, 2);
  const light = (owner: string): Promise<string> =>
    new Promise((resolve) => {
      workers.run({ owner, isTooLate: () => false, message: () => [{ ms: 1 }, []], weight: 1 / 4 }, (outcome) =>
        resolve(outcome instanceof TuttiError ? outcome.code : "ok"),
      );
    });
  const codes = await Promise.all(Array.from({ length: 10 }, () => light("a")));
  expect(codes.filter((code) => code === "ok")).toHaveLength(8);
  // A heavy one pushes out as many of who has most as it needs.
  const flood = Array.from({ length: 8 }, () => light("flood"));
  expect(await run("other", 1)).toBe("ok");
  expect((await Promise.all(flood)).filter((code) => code === "TUTTI_OVERLOADED")).toHaveLength(4);
  expect(await Promise.all(Array.from({ length: 2 }, () => run("a", 1)))).toEqual(["ok", "ok"]); // all is free again
});

test("a thread that is asked for starts without a job", async () => {
  starting(1);
  expect(workers.isOnline).toBe(false);
  await expect.poll(() => workers.isOnline).toBe(true);
  expect(await run("a", 1)).toBe("ok");
});

test("owners share a thread by time: short jobs don't wait behind as many long ones (FW1)", async () => {
  starting(1);
  const order: string[] = [];
  const ask = async (owner: string, ms: number): Promise<void> => {
    await run(owner, ms);
    order.push(owner);
  };
  const long = Array.from({ length: 4 }, () => ask("long", 60));
  await Promise.all(Array.from({ length: 6 }, () => ask("short", 1)));
  expect(order.filter((owner) => owner === "long").length).toBeLessThanOrEqual(2);
  await Promise.all(long);
});

test("a job whose time is over when its turn comes is refused, and the next one runs", async () => {
  starting(1);
  expect(await Promise.all([run("a", 1), run("a", 1, () => true), run("a", 1)])).toEqual([
    ...["ok", "TUTTI_DEADLINE_EXCEEDED", "ok"],
  ]);
});

test("a stop refuses what waits and what runs", async () => {
  starting(1);
  const asked = [run("a", 10_000), run("a", 1)];
  await workers.close("the test is over");
  expect(await Promise.all(asked)).toEqual(["TUTTI_INTERNAL", "TUTTI_INTERNAL"]);
});
