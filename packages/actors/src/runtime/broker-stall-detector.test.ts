import { VirtualClock } from "@tutti/ports/clock";
import type { Heartbeat } from "@tutti/protocol";
import { actorKey, millis } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { BrokerStallDetector } from "./broker-stall-detector.ts";
import { PeerRegistry } from "./peer-registry.ts";

/** A server that answers at once, or when it wakes if it sleeps. */
function server() {
  let due: (() => void)[] = [];
  const state = { asleep: false };
  return {
    state,
    flush: (done: (reached: boolean) => void): void => void (state.asleep ? due.push(() => done(true)) : done(true)),
    wake: (): void => {
      state.asleep = false;
      const answers = due;
      due = [];
      answers.forEach((answer) => answer());
    },
  };
}

const executor = (key: number): Heartbeat => ({
  ...{ key: actorKey(key), role: "executor", host: "h", pid: 1, leaving: false },
  ...{ sentAt: 0 as never, startedAt: 0 as never },
});

test("time in which the server left a question unanswered is a stall, while one waits and afterwards; what it answers soon enough is none", () => {
  const clock = new VirtualClock();
  const { flush, state, wake } = server();
  const stallDetector = new BrokerStallDetector({ flush }, clock, millis(20));
  stallDetector.beat();
  clock.advanceBy(millis(500));
  expect(stallDetector.stalledUs).toBe(0);
  state.asleep = true;
  stallDetector.beat();
  clock.advanceBy(millis(20));
  expect(stallDetector.stalledUs).toBe(0);
  clock.advanceBy(millis(280));
  expect(stallDetector.stalledUs).toBe(millis(300));
  stallDetector.beat(); // it still waits for the first one's answer
  wake();
  clock.advanceBy(millis(400));
  expect(stallDetector.stalledUs).toBe(millis(300));
});

test("what was asked on a connection that is gone neither counts for ever nor settles a later question", () => {
  const clock = new VirtualClock();
  const answers: (() => void)[] = [];
  const stallDetector = new BrokerStallDetector(
    { flush: (done) => void answers.push(() => done(false)) },
    clock,
    millis(20),
  );
  stallDetector.beat();
  clock.advanceBy(millis(100));
  stallDetector.reset();
  clock.advanceBy(millis(1_000));
  expect(stallDetector.stalledUs).toBe(millis(100));
  stallDetector.beat();
  answers[0]!();
  clock.advanceBy(millis(50));
  expect(stallDetector.stalledUs).toBe(millis(150));
});

test("while the server sleeps nobody is lost, however long; who stays silent when it is awake is", () => {
  const clock = new VirtualClock();
  const { flush, state, wake } = server();
  const lost: number[] = [];
  const stallDetector = new BrokerStallDetector({ flush }, clock, millis(20));
  const registry = new PeerRegistry(clock, millis(1_000), { onLost: ({ key }) => lost.push(key) }, stallDetector);
  const beats = (ms: number): void => {
    for (let at = 0; at < ms; at += 100) {
      registry.hear(executor(1));
      clock.advanceBy(millis(100));
    }
  };
  [1, 2].forEach((key) => registry.hear(executor(key)));
  beats(500);
  state.asleep = true;
  clock.advanceBy(millis(5_000));
  expect(lost).toEqual([]);
  wake();
  beats(300);
  expect(lost).toEqual([]);
  beats(600);
  expect(lost).toEqual([2]);
});

test("a peer that beats whenever the server is awake is never lost; one that does not is, after its time-out of awake time", () => {
  const spells = fc.array(fc.record({ awakeMs: fc.integer({ min: 100, max: 900 }), asleepMs: fc.nat(3_000) }), {
    maxLength: 12,
  });
  fc.assert(
    fc.property(spells, (turns) => {
      const clock = new VirtualClock();
      const { flush, state, wake } = server();
      const lost: number[] = [];
      const stallDetector = new BrokerStallDetector({ flush }, clock, millis(20));
      const registry = new PeerRegistry(clock, millis(1_000), { onLost: ({ key }) => lost.push(key) }, stallDetector);
      [1, 2].forEach((key) => registry.hear(executor(key)));
      let awake = 0;
      for (const { awakeMs, asleepMs } of turns) {
        for (let ms = 0; ms < awakeMs; ms += 50) {
          registry.hear(executor(1));
          clock.advanceBy(millis(Math.min(50, awakeMs - ms)));
        }
        awake += awakeMs;
        expect(lost).not.toContain(1);
        // Up to one round of questions, and the tolerated delay, of each sleep count as awake.
        const slack = 120 * turns.length + 200;
        if (awake > 1_000 + slack) expect(lost).toContain(2);
        if (awake < 1_000 - slack) expect(lost).toEqual([]);
        state.asleep = true;
        clock.advanceBy(millis(asleepMs));
        wake();
      }
      registry.stop();
    }),
  );
});
