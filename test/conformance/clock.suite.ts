/**
 * The contract of every clock, virtual or real (docs/architecture.md, 5). A test lets time pass only until an event has
 * happened, so that the real clock's run is as short as it can be.
 */
import type { Alarm, Clock } from "@tutti/ports/clock";
import { ALWAYS, type Instant, NEVER, Prng, after, micros, millis, seconds } from "@tutti/units";
import { afterEach, expect, test } from "vitest";

export interface ClockUnderTest {
  readonly clock: Clock;
  /** Lets time pass until `done()`; throws if that takes longer than ten seconds. */
  until(done: () => boolean): Promise<void>;
  close(): void;
}

export const UNTIL_MAX = seconds(10);

export function clockConformance(name: string, makeClock: () => Promise<ClockUnderTest>): void {
  let running: ClockUnderTest | undefined;
  afterEach(() => running?.close());
  const start = async (): Promise<ClockUnderTest> => (running = await makeClock());
  const inMillis = (clock: Clock, count: number): Instant => after(clock.now(), millis(count));

  test(`${name}: time is in whole microseconds since 1970, and never steps back`, async () => {
    const { clock, until } = await start();
    const first = clock.now();
    let last = first;
    await until(() => {
      const now = clock.now();
      expect(now).toBeGreaterThanOrEqual(last);
      last = now;
      expect(Number.isSafeInteger(now)).toBe(true);
      if (now === first) clock.alarm(() => undefined).set(after(now, micros(500)));
      return now > first;
    });
    expect(new Date(first / 1000).getUTCFullYear()).toBeGreaterThanOrEqual(2025);
  });

  test(`${name}: an alarm fires once for each setting, and never early`, async () => {
    const { clock, until } = await start();
    const fired: number[] = [];
    let at = inMillis(clock, 3);
    const alarm = clock.alarm(() => {
      fired.push(clock.now() - at);
      if (fired.length < 5) alarm.set((at = inMillis(clock, fired.length / 4)));
    });
    alarm.set(at);
    expect(fired).toEqual([]);
    await until(() => fired.length >= 5);
    await nextAlarm(clock, until, 5);
    expect(fired.length).toBe(5);
    for (const lateness of fired) expect(lateness).toBeGreaterThanOrEqual(0);
  });

  test(`${name}: alarms fire in the order of their instants, equal ones in the order in which they were set`, async () => {
    const { clock, until } = await start();
    const order: string[] = [];
    const offsets = { c: 900, a: 0, d: 900, b: 300, e: 900 };
    const labels = Object.keys(offsets) as (keyof typeof offsets)[];
    const alarms = labels.map((label) => clock.alarm(() => void order.push(label)));
    arrange(clock, alarms, (base) => {
      labels.forEach((label, i) => alarms[i]?.set(after(base, micros(offsets[label]))));
    });
    await until(() => order.length === 5);
    expect(order.join("")).toBe("abcde");
  });

  test(`${name}: a new setting replaces the old one, earlier or later; NEVER and clear() end it`, async () => {
    const { clock, until } = await start();
    const fired: string[] = [];
    const labels = ["later", "earlier", "never", "cleared", "reset"];
    const alarms = labels.map((label) => clock.alarm(() => void fired.push(label)));
    const [later, earlier, never, cleared, reset] = alarms;
    arrange(clock, alarms, (base) => {
      const [at5, at10] = [after(base, millis(5)), after(base, millis(10))];
      later?.set(base);
      earlier?.set(at10);
      never?.set(base);
      cleared?.set(base);
      reset?.set(base);
      later?.set(at10);
      earlier?.set(at5);
      never?.set(NEVER);
      cleared?.clear();
      cleared?.clear();
      reset?.clear();
      reset?.set(base);
    });
    await until(() => fired.includes("later"));
    await nextAlarm(clock, until, 1);
    expect(fired).toEqual(["reset", "earlier", "later"]);
  });

  test(`${name}: an alarm set to the past fires at the end of the turn, not inside the call`, async () => {
    const { clock, until } = await start();
    const log: string[] = [];
    clock.alarm(() => void log.push("past")).set((clock.now() - 1_000_000) as Instant);
    clock.alarm(() => void log.push("always")).set(ALWAYS);
    log.push("set");
    await until(() => log.length === 3);
    expect(log).toEqual(["set", "past", "always"]);
  });

  test(`${name}: the end of a turn comes after what is due, in order, once each; what it adds comes after it`, async () => {
    const { clock, until } = await start();
    const log: string[] = [];
    clock.endOfTurn(() => {
      log.push("end 1");
      clock.endOfTurn(() => void log.push("end 3"));
    });
    clock.endOfTurn(() => void log.push("end 2"));
    clock.alarm(() => void log.push("due")).set(clock.now());
    log.push("turn");
    await until(() => log.length >= 5);
    expect(log).toEqual(["turn", "due", "end 1", "end 2", "end 3"]);
  });

  test(`${name}: a repeating timer repeats until it is stopped, also from inside`, async () => {
    const { clock, until } = await start();
    const ticks = { outside: 0, inside: 0 };
    const outside = clock.every(millis(2), () => void ticks.outside++);
    const inside = clock.every(millis(2), () => {
      ticks.inside++;
      inside.stop();
    });
    await until(() => ticks.outside >= 4);
    outside.stop();
    outside.stop();
    const { outside: ticksOutside } = ticks;
    await nextAlarm(clock, until, 10);
    expect(ticks).toEqual({ outside: ticksOutside, inside: 1 });
  });

  test(`${name}: the lateness of alarms is a length of time`, async () => {
    const { clock } = await start();
    expect(Number.isSafeInteger(clock.lateness()) && clock.lateness() >= 0).toBe(true);
  });

  test(`${name}: an alarm that keeps setting itself to now lets others have their turn`, async () => {
    const { clock, until } = await start();
    let spins = 0;
    let others = 0;
    const greedy = clock.alarm(() => {
      if (++spins < 1_000) greedy.set(others < 2 ? clock.now() : NEVER);
    });
    greedy.set(clock.now());
    clock.alarm(() => void others++).set(clock.now());
    clock.endOfTurn(() => void others++);
    await until(() => spins === 1_000 || (others === 2 && spins > 0));
    expect(others).toBe(2);
  });

  test(`${name}: three hundred alarms, set, moved and cleared at random, fire exactly as a sorted list would`, async () => {
    const { clock, until } = await start();
    const prng = new Prng(20);
    const settings = new Map<number, { at: Instant; order: number }>();
    const fired: number[] = [];
    const alarms = Array.from({ length: 300 }, (_, i) => clock.alarm(() => void fired.push(i)));
    arrange(clock, alarms, (base) => {
      settings.clear();
      for (let order = 0; order < 1_500; order++) {
        const i = prng.nextInt(alarms.length);
        const at = prng.nextInt(5) === 0 ? NEVER : after(base, micros(prng.nextInt(200) * 100));
        alarms[i]?.set(at);
        if (at === NEVER) settings.delete(i);
        else settings.set(i, { at, order });
      }
    });
    const expected = [...settings].sort(([, a], [, b]) => a.at - b.at || a.order - b.order).map(([i]) => i);
    await until(() => fired.length >= expected.length);
    await nextAlarm(clock, until, 2);
    expect(fired).toEqual(expected);
  });
}

/**
 * Sets alarms to `base` or later, while the time is before `base`. On a busy machine a first attempt may take too long,
 * and is repeated with a larger margin.
 */
function arrange(clock: Clock, alarms: readonly Alarm[], set: (base: Instant) => void): void {
  for (let margin = 20; margin < 10_000; margin *= 2) {
    const base = after(clock.now(), millis(margin));
    set(base);
    if (clock.now() < base) return;
    for (const alarm of alarms) alarm.clear();
  }
  throw new Error("setting the alarms takes for ever");
}

/** Waits for one more alarm, so that any wrongly armed alarm has fired before it. */
async function nextAlarm(clock: Clock, until: ClockUnderTest["until"], inMs: number): Promise<void> {
  let fired = false;
  clock.alarm(() => (fired = true)).set(after(clock.now(), millis(inMs)));
  await until(() => fired);
}
