import { EventLoopTurns } from "@tutti/node/event-loop";
import { expect, test } from "vitest";
import { loopBusyUs, watchVitals } from "./vitals.ts";

const turn = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

test("a turn that takes long shows once in the figures of a second, and stays in those of the minute", async () => {
  const turns = new EventLoopTurns();
  const read = watchVitals(turns, () => ({ messagesIn: 7 }));
  await turn(60);
  const before = read();
  const until = performance.now() + 300;
  while (performance.now() < until); // blocking work
  await turn(60);
  const after = read();
  expect(after["turnMaxUs"]).toBeGreaterThan(200_000);
  expect(after["cpuUs"]! - before["cpuUs"]!).toBeGreaterThan(20_000);
  expect(after).toMatchObject({ messagesIn: 7, rssBytes: expect.any(Number) as number });
  await turn(60);
  const later = read();
  expect(later["turnMaxUs"]).toBeLessThan(after["turnMaxUs"]!);
  expect(later["minuteTurnMaxUs"]).toBe(after["turnMaxUs"]);
  turns.stop();
});

test("the time in which the event loop works is counted, and the time in which it waits isn't", async () => {
  await turn(20);
  const before = loopBusyUs();
  await turn(200);
  const waited = loopBusyUs() - before;
  const until = performance.now() + 200;
  while (performance.now() < until); // blocking work
  await turn(20);
  expect(loopBusyUs() - before - waited).toBeGreaterThan(150_000);
  expect(waited).toBeLessThan(150_000);
});
