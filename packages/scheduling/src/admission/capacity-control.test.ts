import { expect, test } from "vitest";
import { CapacityControl } from "./capacity-control.ts";

const LENGTH = 50_000;
const period = (dispatched: number, dropped: number, idle = 0) => ({
  ...{ length: LENGTH, offered: dispatched + dropped, dispatched, dropped, droppedAtOnce: 0 },
  ...{ idle, idleTime: 0, runTime: 0, ranTime: 0 },
});
const end = (control: CapacityControl, dispatched: number, dropped: number): void =>
  void control.end(period(dispatched, dropped), () => ({ dispatched, dropped }));

test("a thread that never had anything served takes no outage for its capacity (CC6)", () => {
  const control = new CapacityControl();
  for (let i = 0; i < 40; i++) end(control, 0, 20);
  expect([control.state, control.rate]).toEqual(["normal", Infinity]);
  // An executor is there and serves half of the arrivals: now there is a loss to steer by.
  for (let i = 0; i < 40; i++) end(control, 10, 10);
  expect(control.state).toBe("overloaded");
  expect(control.rate * LENGTH).toBeGreaterThan(9);
});

test.each([0, 1])(
  "a slow model, of which a period brings one request or four, lets all of them in again after an outage (phase %i)",
  (phase) => {
    const control = new CapacityControl();
    const arrivals = (i: number): number => ((i + phase) % 2 === 0 ? 1 : 4);
    for (let i = 0; i < 40; i++) end(control, arrivals(i), 0);
    for (let i = 0; i < 40; i++) end(control, 1, 2);
    expect(control.state).toBe("overloaded");
    let waiting = 0;
    let gone = 0;
    // From now on all admitted requests are served; the others are refused at admission, which is no loss.
    for (let i = 0; i < 200 && control.state !== "normal"; i++) {
      waiting += Math.min(arrivals(i), control.rate * LENGTH);
      const dispatched = Math.floor(waiting);
      waiting -= dispatched;
      gone += dispatched;
      const counted = { ...period(dispatched, 0), offered: arrivals(i) };
      if (control.end(counted, () => ({ dispatched: gone, dropped: 0 })) === "new sample") gone = 0;
    }
    expect(control.state).toBe("normal");
  },
);

/** Feeds a control as FairShares does: samples count the departures since the last one began. */
function feeding(
  control: CapacityControl,
  offered: number,
): (dispatched: number, dropped: number, idle?: number, idleTime?: number) => void {
  let sample = { dispatched: 0, dropped: 0 };
  return (dispatched, dropped, idle, idleTime = 0) => {
    sample = { dispatched: sample.dispatched + dispatched, dropped: sample.dropped + dropped };
    const begins = control.end(
      { ...period(dispatched, dropped, idle), offered, idleTime, runTime: LENGTH },
      () => sample,
    );
    if (begins === "new sample") sample = { dispatched: 0, dropped: 0 };
  };
}

/** 40 requests a period are served, ten times as many come, and the excess is refused at admission. */
function flooded(): { control: CapacityControl; feed: ReturnType<typeof feeding> } {
  const control = new CapacityControl();
  for (let i = 0; i < 20; i++) end(control, 40, 0);
  const feed = feeding(control, 400);
  for (let i = 0; i < 4; i++) feed(40, 360);
  for (let i = 0; i < 12; i++) feed(40, 1);
  expect(control.state).toBe("overloaded");
  return { control, feed };
}

test("a loss beside idle accelerators doesn't lower the rate, unless most comes to nothing: then whoever is late needs relief (CC5)", () => {
  const control = new CapacityControl();
  for (let i = 0; i < 20; i++) end(control, 40, 0);
  const feed = feeding(control, 1_000);
  for (let i = 0; i < 20; i++) feed(40, 20);
  const found = control.rate;
  for (let i = 0; i < 12; i++) feed(32, 8, 30);
  const risen = control.rate;
  expect(risen).toBeGreaterThan(1.5 * found);
  for (let i = 0; i < 9; i++) feed(20, 20, 20);
  expect(control.rate).toBeLessThan(0.7 * risen);
});

test.each([
  { idleTime: 0, times: 1.25 },
  { idleTime: 1, times: 1.7 },
  { idleTime: 9, times: 2 },
])(
  "what may be let in beside idle accelerators follows from how long they had nothing to do: $idleTime (CC5)",
  ({ idleTime, times }) => {
    const { control, feed } = flooded();
    const idle = (): void => feed(40, 0, 40, idleTime * LENGTH);
    for (let i = 0; i < 6; i++) idle();
    const before = control.rate;
    for (let i = 0; i < 6 && control.rate === before; i++) idle();
    expect(control.rate / before).toBeCloseTo(times, 6);
  },
);

test("where the end of the capacity was found, accelerators that are idle for a moment change nothing: it rises in small steps (CC5)", () => {
  const { control, feed } = flooded();
  for (let i = 0; i < 3; i++) feed(40, 20);
  for (let i = 0; i < 6; i++) feed(40, 0);
  const before = control.rate;
  for (let i = 0; i < 3; i++) feed(40, 0, 40, 0.03 * LENGTH);
  expect(control.rate / before).toBeGreaterThan(1);
  expect(control.rate / before).toBeLessThan(1.02);
});

test("beside idle accelerators the rate doesn't double while anything is lost (CC5)", () => {
  const { control, feed } = flooded();
  for (let i = 0; i < 6; i++) feed(40, 0, 40, 9 * LENGTH);
  const before = control.rate;
  for (let i = 0; i < 3; i++) feed(40, 10, 40, 9 * LENGTH);
  expect(control.rate / before).toBeCloseTo(1.25, 6);
});

test("a loss beside idle accelerators is no overload, unless most comes to nothing (CC5)", () => {
  const after = (dropped: number, idle: number): boolean => {
    const control = new CapacityControl();
    for (let i = 0; i < 20; i++) end(control, 40, 0);
    for (let i = 0; i < 8; i++) control.end(period(40, dropped, idle), () => ({ dispatched: 40, dropped }));
    return control.state !== "normal";
  };
  expect([after(8, 40), after(8, 20), after(30, 40)]).toEqual([false, true, true]);
});

test("while nobody grants, as in a takeover, what is lost is no overload; what is lost for longer is (CC7)", () => {
  const isOverloadedAfter = (seconds: number, burst: number): boolean => {
    const control = new CapacityControl();
    for (let i = 0; i < 40; i++) end(control, 1, 0);
    // The leader dies in the middle of a period; the first new grants go to accelerators that have waited.
    control.end(period(burst / 4, (3 * burst) / 4, burst / 4), () => ({ dispatched: 0, dropped: 0 }));
    for (let i = 0; i < 20 * seconds; i++) control.end(period(0, burst), () => ({ dispatched: 0, dropped: burst }));
    if (control.state !== "normal") return true;
    control.end(period(burst / 4, (3 * burst) / 4, burst / 4), () => ({ dispatched: 0, dropped: 0 }));
    return control.state !== "normal";
  };
  expect([isOverloadedAfter(0, 40), isOverloadedAfter(0.1, 40), isOverloadedAfter(1.9, 40)]).toEqual([
    false,
    false,
    false,
  ]);
  expect(isOverloadedAfter(2.5, 40)).toBe(true);
});

test("requests that all come too late are a sign of overload though nothing is dispatched (CC7)", () => {
  const control = new CapacityControl();
  for (let i = 0; i < 20; i++) end(control, 40, 0);
  const late = { ...period(0, 40), droppedAtOnce: 40 };
  for (let i = 0; i < 4; i++) control.end(late, () => ({ dispatched: 0, dropped: 40 }));
  expect(control.state).toBe("overloaded");
});

test("a standstill in a flood, and what comes too late after it, change nothing of the capacity that was found (CC8)", () => {
  const { control, feed } = flooded();
  const found = control.rate;
  for (let i = 0; i < 10; i++) end(control, 0, 0);
  expect(control.rate).toBe(found);
  feed(4, 2_000);
  for (let i = 0; i < 8; i++) feed(40, 0);
  expect(control.rate).toBeGreaterThanOrEqual(found);
});

test("overload is over after a second in which nothing comes, though at first that looked like a standstill (CC8)", () => {
  const { control } = flooded();
  for (let i = 0; i < 15; i++) end(control, 0, 0);
  expect(control.state).toBe("stalled");
  for (let i = 0; i < 10; i++) end(control, 0, 0);
  expect(control.state).toBe("normal");
});

test("what comes in bursts, with a period of nothing between them, is no standstill: its capacity is found (CC8)", () => {
  const control = new CapacityControl();
  const CAPACITY = 100;
  for (let i = 0; i < 20; i++) end(control, 10, 0);
  for (let i = 0; i < 4; i++) end(control, 10, 150);
  let sample = { dispatched: 0, dropped: 0 };
  for (let i = 0; i < 200; i++) {
    const offered = i % 2 === 0 ? 2 * CAPACITY : 0;
    const letIn = Math.min(offered, 2 * LENGTH * control.rate);
    const dispatched = Math.min(CAPACITY, letIn);
    sample = { dispatched: sample.dispatched + dispatched, dropped: sample.dropped + letIn - dispatched };
    const sampled = control.end({ ...period(dispatched, letIn - dispatched), offered }, () => sample);
    if (sampled === "new sample") sample = { dispatched: 0, dropped: 0 };
  }
  expect(2 * LENGTH * control.rate).toBeGreaterThan(0.9 * CAPACITY);
  expect(2 * LENGTH * control.rate).toBeLessThan(1.2 * CAPACITY);
});

test("a burst that comes too late is no flood; it is one if that goes on (CC8)", () => {
  const control = new CapacityControl();
  for (let i = 0; i < 20; i++) end(control, 40, 0);
  const late = { ...period(10, 400), droppedAtOnce: 390 };
  control.end(late, () => ({ dispatched: 10, dropped: 400 }));
  expect(control.state).toBe("normal");
  for (let i = 0; i < 3; i++) control.end(late, () => ({ dispatched: 10, dropped: 400 }));
  expect(control.state).toBe("overloaded");
});

test("a flood is known by its first period, also after a pause, where accelerators are busy", () => {
  const control = new CapacityControl();
  for (let i = 0; i < 20; i++) end(control, 40, 0);
  control.end(period(0, 40), () => ({ dispatched: 0, dropped: 40 }));
  expect(control.state).toBe("normal");
  control.end(period(40, 400, 10), () => ({ dispatched: 40, dropped: 400 }));
  expect(control.state).toBe("overloaded");
});

test("accelerators that really ran for less than they stood idle are no overload, whatever is lost, and end one (CC9)", () => {
  const lossy = { ...period(40, 60), runTime: 5 * LENGTH };
  const unused = { ...lossy, idleTime: 0.6 * LENGTH, ranTime: 0.4 * LENGTH };
  const busy = { ...lossy, idleTime: 0.4 * LENGTH, ranTime: 0.6 * LENGTH };
  const control = new CapacityControl();
  const feed = (one: typeof unused, times: number): void => {
    for (let i = 0; i < times; i++) control.end(one, () => ({ dispatched: 40, dropped: 60 }));
  };
  for (let i = 0; i < 20; i++) end(control, 40, 0);
  feed(unused, 20);
  expect(control.state).toBe("normal");
  feed(busy, 6);
  expect(control.state).toBe("overloaded");
  feed(unused, 3);
  expect([control.state, control.rate]).toEqual(["normal", Infinity]);
});

test("a rate that nobody asks for falls to twice what is asked, but not below the best of the last seconds", () => {
  const { control, feed } = flooded();
  while (control.rate * LENGTH < 400) feed(40, 0, 40, 9 * LENGTH);
  const few = feeding(control, 10);
  for (let i = 0; i < 12; i++) few(10, 0);
  expect(control.state).toBe("overloaded");
  expect(control.rate * LENGTH).toBeLessThan(60);
  expect(control.rate * LENGTH).toBeGreaterThan(35);
});

test("however long everything was lost, two requests a period may come, so that a capacity can be found (CC1)", () => {
  const { control, feed } = flooded();
  for (let i = 0; i < 5_000; i++) feed(0, 400);
  expect(control.rate * LENGTH).toBeCloseTo(2, 6);
  for (let i = 0; i < 100; i++) feed(Math.floor(Math.min(40, control.rate * LENGTH)), 0);
  expect(control.rate * LENGTH).toBeGreaterThan(35);
});
