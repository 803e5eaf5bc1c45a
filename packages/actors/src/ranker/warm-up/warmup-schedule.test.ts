import { VirtualClock } from "@tutti/ports/clock";
import { after, micros, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { createRanker } from "../ranker.ts";
import { WarmupSchedule } from "./warmup-schedule.ts";

/** @param answers - number of its messages to itself that come back */
function spare(answers: number) {
  const clock = new VirtualClock();
  const state = { leads: 0, asks: 0, echoes: 0, isDue: true, readyAt: [] as number[] };
  const warmups = new WarmupSchedule(clock, seconds(10), {
    subCluster: "main",
    isDue: () => state.isDue,
    create: (ports, config, ready) => {
      state.leads++;
      const more = { subCluster: "main", pingEvery: millis(5), ctrlFloor: micros(100) };
      return createRanker(ports, { ...config, ...more }, ready);
    },
    ask: () => state.asks++,
    echo: () => {
      if (++state.echoes <= answers) clock.endOfTurn(() => warmups.echoed());
    },
  });
  const ready = (): void => void state.readyAt.push(clock.now());
  const isReadyWithin = (s: number): boolean =>
    clock.runUntil(() => state.readyAt.length > 0, after(clock.now(), seconds(s)));
  return { clock, warmups, state, ready, isReadyWithin };
}

test("a spare is ready once it has led several times and heard itself a thousand times, and goes on warming up", () => {
  const { clock, warmups, state, ready, isReadyWithin } = spare(Infinity);
  warmups.opened(ready);
  expect(isReadyWithin(4)).toBe(true);
  expect([state.leads, state.echoes]).toEqual([4, 1_000]);
  clock.advanceBy(seconds(31));
  expect([state.leads, state.echoes, state.readyAt.length]).toEqual([7, 1_000, 1]);
  expect(state.asks).toBe(1 + 1 + 3);
});

test("a message that does not come back holds nobody up for long", () => {
  const { clock, warmups, state, ready, isReadyWithin } = spare(10);
  warmups.opened(ready);
  expect(clock.runUntil(() => state.echoes === 11, after(clock.now(), seconds(4)))).toBe(true);
  expect(state.readyAt).toEqual([]);
  expect(isReadyWithin(0.5)).toBe(true);
  warmups.echoed(); // late
  expect([state.echoes, state.readyAt.length]).toEqual([11, 1]);
});

test("who leads by now is ready at once, and who was told to stop never is", () => {
  const leader = spare(Infinity);
  leader.warmups.opened(leader.ready);
  leader.state.isDue = false;
  expect(leader.isReadyWithin(0.1)).toBe(true);
  expect([leader.state.leads, leader.state.echoes]).toEqual([1, 0]);
  for (const moment of [0, 0.4]) {
    const { clock, warmups, state, ready } = spare(10);
    warmups.opened(ready);
    clock.advanceBy(seconds(moment)); // in the first lead, or while it waits to hear itself
    expect(state.echoes > 0).toBe(moment > 0);
    warmups.stop();
    clock.advanceBy(seconds(9));
    expect(state.readyAt).toEqual([]);
    expect(clock.nextAt).toBe(Infinity);
  }
});
