import { type Instant, instant, micros, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { BeatPace } from "./beat-pace.ts";

const options = { heartbeatEvery: millis(100), idleHeartbeatEvery: seconds(1) };

/** Asks every 100 ms for `forMs`, while the actor works or not. @returns when it beat, in ms */
function beatsOf(pace: BeatPace, forMs: number, { works, peers }: { works: boolean; peers: number }): number[] {
  const beats: number[] = [];
  for (let ms = 100; ms <= forMs; ms += 100) {
    const now: Instant = instant(1_000_000 + ms * 1_000);
    if (works) pace.works(now);
    if (!pace.isDue(now, peers)) continue;
    pace.beats(now);
    beats.push(ms);
  }
  return beats;
}

test("an actor that works beats as often as it is asked where few listen, and says nothing of it", () => {
  const pace = new BeatPace(options);
  expect(beatsOf(pace, 1_000, { works: true, peers: 4 })).toHaveLength(10);
  expect(pace.every).toBeUndefined();
});

test("many that listen to each other hear no more beats than few, and are told when the next one comes", () => {
  const pace = new BeatPace(options);
  expect(beatsOf(pace, 3_000, { works: true, peers: 12 })).toHaveLength(10);
  expect(pace.every).toBe(millis(300));
});

test("however many listen, one that works beats as often as one that idles", () => {
  const pace = new BeatPace(options);
  expect(beatsOf(pace, 5_000, { works: true, peers: 10_000 })).toHaveLength(5);
  expect(pace.every).toBe(seconds(1));
});

test("an idle one says so at once and beats rarely; one that works again beats at once", () => {
  const pace = new BeatPace(options);
  pace.works(instant(1_000_000));
  const beats = beatsOf(pace, 4_100, { works: false, peers: 1 });
  expect(beats.slice(0, 11)).toEqual([100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000, 1_100]);
  expect(beats.slice(11)).toEqual([2_100, 3_100, 4_100]);
  expect(pace.every).toBe(seconds(1));
  expect(pace.works(instant(6_000_000))).toBe(true);
  expect([pace.isIdle, pace.every]).toEqual([false, undefined]);
  expect(pace.works(instant(6_000_001))).toBe(false);
});

test("without an interval for idle actors all beat as often as they are asked", () => {
  const pace = new BeatPace({ heartbeatEvery: micros(20_000) });
  expect(beatsOf(pace, 5_000, { works: false, peers: 500 })).toHaveLength(50);
  expect(pace.every).toBeUndefined();
});
