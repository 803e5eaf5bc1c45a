import { expect, test } from "vitest";
import { Tickers } from "./tickers.ts";

test("timers of one period tick together, and those of a multiple with them", async () => {
  const tickers = new Tickers();
  const log: string[] = [];
  await new Promise<void>((resolve) => {
    tickers.every(10, () => log.push("a"));
    tickers.every(10, () => log.push("b"));
    tickers.every(40, () => {
      log.push("c");
      if (log.filter((one) => one === "c").length === 3) resolve();
    });
  });
  tickers.close();
  const text = log.join("");
  expect(text.replaceAll("c", "")).toMatch(/^(ab)+$/);
  expect(text.length).toBeGreaterThan(12);
});

test("a timer that is stopped, also by another in the same tick, runs no more; the last one to stop ends the ticking", async () => {
  const tickers = new Tickers();
  const log: string[] = [];
  await new Promise<void>((resolve) => {
    const first = tickers.every(5, () => {
      log.push("first");
      second.stop();
    });
    const second = tickers.every(5, () => log.push("second"));
    tickers.every(20, () => {
      first.stop();
      resolve();
    });
  });
  const count = log.length;
  await new Promise<void>((resolve) => void tickers.every(20, resolve));
  tickers.close();
  expect(count).toBeGreaterThan(0);
  expect(log).toEqual(new Array(count).fill("first"));
});
