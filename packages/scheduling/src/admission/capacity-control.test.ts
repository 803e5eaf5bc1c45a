import { expect, test } from "vitest";
import { CapacityControl } from "./capacity-control.ts";

const LENGTH = 50_000;
const period = (dispatched: number, dropped: number) => ({
  ...{ length: LENGTH, offered: dispatched + dropped, dispatched, dropped },
});
const end = (control: CapacityControl, dispatched: number, dropped: number): void =>
  void control.end(period(dispatched, dropped), () => ({ dispatched, dropped }));

test("a thread that never had anything served takes no outage for its capacity (CC5)", () => {
  const control = new CapacityControl();
  for (let i = 0; i < 40; i++) end(control, 0, 20);
  expect([control.isOverloaded, control.rate]).toEqual([false, Infinity]);
  // An executor is there, and carries half of what comes: now there is something to steer by.
  for (let i = 0; i < 40; i++) end(control, 10, 10);
  expect(control.isOverloaded).toBe(true);
  expect(control.rate * LENGTH).toBeGreaterThan(9);
});
