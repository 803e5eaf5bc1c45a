import { expect, test } from "vitest";
import { watchVitals } from "./vitals.ts";

const turn = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

test("a blocked event loop shows as its lag, once, and the work as processor time", async () => {
  const read = watchVitals(() => ({ messagesIn: 7 }));
  await turn(60);
  const before = read();
  await turn(60); // a reading starts a new histogram, and its first interval begins with the next turn
  const until = performance.now() + 300;
  while (performance.now() < until); // blocking work
  await turn(60);
  const after = read();
  expect(after["lagMaxUs"]).toBeGreaterThan(200_000);
  expect(after["cpuUs"]! - before["cpuUs"]!).toBeGreaterThan(20_000);
  expect(after).toMatchObject({ messagesIn: 7, rssBytes: expect.any(Number) as number });
  await turn(60);
  expect(read()["lagMaxUs"]).toBeLessThan(after["lagMaxUs"]!);
});

test("nothing is said of a loop that has not turned yet", () => {
  const read = watchVitals(() => ({}));
  expect(read()).toMatchObject({ lagP99Us: 0, lagMaxUs: 0 });
});
