import fc from "fast-check";
import { expect, test } from "vitest";
import { ALWAYS, type Instant, type Micros, NEVER, after, micros, millis } from "@tutti/units";
import { VIRTUAL_START, VirtualClock } from "./index.ts";

const at = (offset: number): Instant => (VIRTUAL_START + offset) as Instant;

test("alarms fire in the order of a stable sort by instant, exactly at it, however they are set, moved and cleared (VCLOCK-1, VCLOCK-3)", () => {
  const command = fc.record({ alarm: fc.nat(7), to: fc.oneof(fc.nat(12), fc.constant(Infinity), fc.constant(-3)) });
  fc.assert(
    fc.property(fc.array(command, { maxLength: 40 }), (commands) => {
      const clock = new VirtualClock();
      const fired: [number, number][] = [];
      const alarms = Array.from({ length: 8 }, (_, i) =>
        clock.alarm(() => void fired.push([i, clock.now() - VIRTUAL_START])),
      );
      const settings = new Map<number, { order: number; to: number }>();
      commands.forEach(({ alarm, to }, order) => {
        alarms[alarm]?.set(at(to));
        if (to === Infinity) settings.delete(alarm);
        else settings.set(alarm, { order, to: Math.max(0, to) });
      });
      clock.advanceBy(micros(20));
      const expected = [...settings].sort(([, a], [, b]) => a.to - b.to || a.order - b.order);
      expect(fired).toEqual(expected.map(([alarm, { to }]) => [alarm, to]));
      expect([clock.now(), clock.nextAt]).toEqual([at(20), NEVER]);
    }),
  );
});

test("the end of a turn comes after everything due at its instant, and what it makes due still belongs to that instant (VCLOCK-2)", () => {
  const clock = new VirtualClock();
  const log: string[] = [];
  const second = clock.alarm(() => void log.push(`second ${clock.now() - VIRTUAL_START}`));
  const first = clock.alarm(() => {
    log.push("first");
    clock.endOfTurn(() => {
      log.push("end");
      second.set(ALWAYS);
      clock.endOfTurn(() => void log.push("end of what followed"));
    });
  });
  const third = clock.alarm(() => void log.push("third"));
  first.set(at(5));
  third.set(at(5));
  clock.advanceTo(at(5));
  expect(log).toEqual(["first", "third", "end", "second 5", "end of what followed"]);
});

test("a repeating timer ticks without drift until it is stopped, also by itself", () => {
  const clock = new VirtualClock();
  const ticks: number[] = [];
  const timer = clock.every(millis(3), () => {
    ticks.push(clock.now() - VIRTUAL_START);
    if (ticks.length === 4) timer.stop();
  });
  clock.advanceBy(millis(100));
  expect(ticks).toEqual([3_000, 6_000, 9_000, 12_000]);
  expect(clock.nextAt).toBe(NEVER);
});

test("running until something holds stops at the turn that made it so, or at the limit", () => {
  const clock = new VirtualClock();
  let ticks = 0;
  clock.every(millis(1), () => void ticks++);
  expect(clock.runUntil(() => ticks === 3, at(1e6))).toBe(true);
  expect(clock.now()).toBe(at(3_000));
  expect(clock.runUntil(() => ticks === 9, at(5_500))).toBe(false);
  expect([clock.now(), ticks]).toEqual([at(5_500), 5]);
  expect(new VirtualClock().runUntil(() => false, NEVER)).toBe(false);
});

test("time never runs backwards, is never moved from inside, and a loop at one instant is found (VCLOCK-4)", () => {
  const clock = new VirtualClock({ firesMax: 1_000 });
  expect(() => clock.advanceTo(at(-1))).toThrow("backwards");
  const nested = clock.alarm(() => clock.advanceBy(micros(1)));
  nested.set(at(1));
  expect(() => clock.advanceBy(micros(1))).toThrow("from outside");
  const loop = clock.alarm(() => loop.set(clock.now()));
  loop.set(at(2));
  expect(() => clock.advanceBy(micros(1))).toThrow("time doesn't advance");
  expect(() => clock.every(0 as Micros, () => undefined)).toThrow("period");
});

test("a clock that moves is later with each reading, and its alarms are never early", () => {
  const clock = new VirtualClock({ moves: true });
  const read: Instant[] = [clock.now(), clock.now()];
  clock.alarm(() => read.push(clock.now(), clock.now())).set(at(2));
  clock.advanceBy(micros(2));
  expect(read).toEqual([at(0), at(1), at(2), at(3)]);
});

test("a hundred times as many alarms cost little more each to move, and none is remembered after it fired", () => {
  const costPerMove = (alarms: number, moves: number): number => {
    const clock = new VirtualClock();
    const all = Array.from({ length: alarms }, () => clock.alarm(() => undefined));
    for (const [i, alarm] of all.entries()) alarm.set(at(i));
    const start = process.cpuUsage();
    for (let i = 0; i < moves; i++) all[(i * 7919) % alarms]?.set(at(1e6 + ((i * 104_729) % 1e6)));
    const { user, system } = process.cpuUsage(start);
    clock.advanceBy(micros(3e6));
    expect(clock.nextAt).toBe(NEVER);
    return (user + system) / moves;
  };
  // The least of five: the process's time counts garbage collection and whatever else its threads do meanwhile.
  const least = (alarms: number): number => Math.min(...Array.from({ length: 5 }, () => costPerMove(alarms, 100_000)));
  const few = least(1_000);
  // log2 grows by 1.7 and caches get colder; a linear structure would cost a hundred times as much
  expect(least(100_000) / few).toBeLessThan(20);
});

test("alarms that come and go for ever use no more keys than are armed at once", () => {
  const clock = new VirtualClock({ timersMax: 2 });
  let fires = 0;
  for (let i = 0; i < 10_000; i++) {
    clock.alarm(() => void fires++).set(after(clock.now(), micros(1)));
    const cleared = clock.alarm(() => void fires++);
    cleared.set(after(clock.now(), micros(1)));
    cleared.clear();
    clock.advanceBy(micros(1));
  }
  expect(fires).toBe(10_000);
});
