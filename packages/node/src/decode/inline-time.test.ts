import { expect, test } from "vitest";
import { INLINE_APPS_MAX, InlineTime } from "./inline-time.ts";

/** A clock that moves only while a body is decoded, or when it is told to. */
function scene() {
  let nowMs = 1_000;
  const time = new InlineTime(() => nowMs);
  const pass = (ms: number): void => void (nowMs += ms);
  return { time, pass, take: (app: string, ms: number) => time.take(app, () => pass(ms)) };
}

test("an application that floods gets a fifth of the thread, and another one its turn at once", () => {
  const { time, pass, take } = scene();
  let [taken, passed] = [0, 0];
  for (; passed < 1_000; passed += 2) {
    if (time.has("flood")) {
      take("flood", 2);
      taken += 2;
    } else pass(2);
    expect(time.has("light")).toBe(true);
  }
  expect(taken).toBeGreaterThan(195);
  expect(taken).toBeLessThan(210);
});

test("bodies that come at once take five milliseconds and the rest of one body, and after a pause they may again", () => {
  const { time, pass, take } = scene();
  let count = 0;
  for (; time.has("a"); count++) take("a", 2);
  expect(count).toBe(3);
  pass(20);
  expect(time.has("a")).toBe(true);
});

test("a body that throws counts too", () => {
  const { time, pass } = scene();
  const decode = () =>
    time.take("a", () => {
      pass(20);
      throw new Error("no JSON");
    });
  expect(decode).toThrow("no JSON");
  expect(time.has("a")).toBe(false);
});

test("those beyond the applications that are told apart count as one, until some are forgotten", () => {
  const { time, pass, take } = scene();
  for (let i = 0; i < INLINE_APPS_MAX; i++) {
    time.take(`app-${i}`, () => undefined);
    take(`app-${i}`, 0.001);
  }
  pass(1);
  take("one more", 40);
  expect([time.has("one more"), time.has("another"), time.has("app-1023")]).toEqual([false, true, true]);
});
