import { InMemoryNetwork } from "@tutti/ports/bus";
import { VirtualClock } from "@tutti/ports/clock";
import { type Micros, actorKey, after, between, micros, millis } from "@tutti/units";
import { expect, test } from "vitest";
import { LeaderFailureDetector } from "./leader-failure-detector.ts";

const LEADER = { key: actorKey(7), epoch: 3 };

/** A spare that pings every 2 ms, and a leader with its connection, heard already. */
function watching(options: { urgent?: boolean; heard?: boolean; lives?: () => boolean | undefined } = {}) {
  const clock = new VirtualClock();
  const later = (run: () => void): void => clock.alarm(run).set(after(clock.now(), micros(50)));
  const network = new InMemoryNetwork({ deliver: later, later });
  const connection = network.connect({ name: "leader" });
  let pings = 0;
  connection.subscribe("to.7", () => pings++);
  const gone = undefined as Micros | undefined;
  const state = { answers: true, asked: 0, goneAfter: gone, leader: LEADER, stalledUs: 0, isLinked: false };
  let since = clock.now();
  const detector: LeaderFailureDetector = new LeaderFailureDetector({
    bus: Object.assign(network.connect({ name: "spare" }), { isNear: () => state.isLinked }),
    clock,
    pingEvery: millis(2),
    hangsAfter: millis(50),
    heardWithin: millis(200),
    subjectOf: (key) => `to.${key}`,
    leader: () => state.leader,
    wasHeard: () => options.heard ?? true,
    isUrgent: () => options.urgent ?? true,
    ...(options.lives !== undefined && { lives: options.lives }),
    stalledUs: () => state.stalledUs,
    ask: ({ epoch }) => {
      state.asked++;
      if (state.answers) later(() => detector.answered(epoch));
    },
    onGone: () => (state.goneAfter ??= between(since, clock.now())),
  });
  const run = (duration: Micros): void => {
    since = clock.now();
    clock.advanceTo(after(since, duration));
  };
  return { clock, connection, detector, state, run, pings: () => pings };
}

test("a leader whose connection is gone is noticed with the next ping", () => {
  const { connection, state, run } = watching();
  run(millis(500));
  expect(state.goneAfter).toBe(undefined);
  connection.close(() => undefined);
  run(millis(10));
  expect(state.goneAfter).toBeLessThanOrEqual(millis(2.2));
});

test("a leader whose process is seen to end is noticed before its connection closes; one that can't be seen, or never was, is not", () => {
  let lives: boolean | undefined;
  const { state, run } = watching({ lives: () => lives });
  run(millis(20));
  lives = false; // never seen alive: another host's process has that number
  run(millis(20));
  expect(state.goneAfter).toBe(undefined);
  lives = true;
  run(millis(20));
  lives = undefined;
  run(millis(20));
  expect(state.goneAfter).toBe(undefined);
  lives = false;
  run(millis(20));
  expect(state.goneAfter).toBeLessThanOrEqual(millis(5));
  // The next leader has to be seen first as well.
  state.goneAfter = undefined;
  state.leader = { ...LEADER, epoch: 4 };
  run(millis(20));
  expect(state.goneAfter).toBe(undefined);
});

test("a leader at the other end of a link is asked and not pinged, and is noticed soon after the link has ended with it", () => {
  const { connection, state, run, pings } = watching();
  run(millis(100));
  const pinged = pings();
  expect(pinged).toBeGreaterThan(40);
  state.isLinked = true;
  const { asked } = state;
  run(millis(100));
  expect(pings()).toBeLessThanOrEqual(pinged + 1);
  expect(state.asked - asked).toBeGreaterThanOrEqual(8);
  expect(state.asked - asked).toBeLessThanOrEqual(11);
  state.isLinked = false;
  connection.close(() => undefined);
  run(millis(20));
  expect(state.goneAfter).toBeLessThanOrEqual(millis(12.2));
});

test("a leader that hangs while its connection stands is noticed after 50 ms, not before", () => {
  const { state, run } = watching();
  run(millis(500));
  state.answers = false;
  run(millis(200));
  expect(state.goneAfter).toBeGreaterThanOrEqual(millis(50));
  expect(state.goneAfter).toBeLessThanOrEqual(millis(65));
});

test("where we ourselves wait for a processor, a leader has longer to answer", () => {
  const { clock, state, run } = watching();
  run(millis(500));
  const now = clock.now.bind(clock);
  clock.now = () => after(now(), millis(30)); // one tick that is 30 ms late
  run(millis(3));
  clock.now = now;
  state.answers = false;
  run(millis(100));
  expect(state.goneAfter).toBe(undefined);
  run(millis(200));
  expect(state.goneAfter).toBeGreaterThan(0);
});

test("while the server itself sleeps a leader leaves no question unanswered; afterwards it has its whole time", () => {
  const { clock, state, run } = watching();
  run(millis(500));
  state.answers = false;
  const asleepSince = clock.now();
  const asleep = Object.defineProperty(state, "stalledUs", {
    get: () => clock.now() - asleepSince,
    configurable: true,
  });
  run(millis(1_000));
  expect(state.goneAfter).toBe(undefined);
  Object.defineProperty(asleep, "stalledUs", { value: millis(1_000) });
  run(millis(200));
  expect(state.goneAfter).toBeGreaterThanOrEqual(millis(40));
  expect(state.goneAfter).toBeLessThanOrEqual(millis(65));
});

test("nobody's being there says nothing of a leader that was not heard yet, until it should have been (NATS clusters)", () => {
  const first = watching({ heard: false });
  first.connection.close(() => undefined);
  first.run(millis(95));
  expect(first.state.goneAfter).toBe(undefined);
  first.run(millis(20));
  expect(first.state.goneAfter).toBeLessThanOrEqual(millis(10));
  // After a server's restart the leader may come back later than we.
  const { connection, state, run, detector } = watching({ heard: false });
  detector.reconnected();
  connection.close(() => undefined);
  run(millis(195));
  expect(state.goneAfter).toBe(undefined);
  run(millis(20));
  expect(state.goneAfter).toBeLessThanOrEqual(millis(10));
});

test("who need not look closely wakes a tenth as often (LV2), and looks closely within 20 ms of when it must", () => {
  const options = { urgent: false, lives: () => true };
  const { clock, connection, state, run, pings } = watching(options);
  run(millis(10));
  let wakes = 0;
  const now = clock.now.bind(clock);
  clock.now = () => (wakes++, now());
  const before = pings();
  run(millis(1_000));
  expect(pings() - before).toBeLessThanOrEqual(51);
  expect(wakes).toBeLessThan(200);
  options.urgent = true;
  run(millis(40));
  connection.close(() => undefined);
  run(millis(10));
  expect(state.goneAfter).toBeLessThanOrEqual(millis(2.2));
});

test("what is known of one epoch's leader says nothing of the next one", () => {
  const { connection, state, run } = watching();
  connection.close(() => undefined);
  run(millis(2)); // the ping is under way
  state.leader = { key: actorKey(8), epoch: 4 };
  run(micros(500));
  expect(state.goneAfter).toBe(undefined);
});

test("only the first spare of a leader with work pings every 2 ms; the others a tenth as often", () => {
  const urgent = watching();
  const relaxed = watching({ urgent: false });
  urgent.run(millis(1_000));
  relaxed.run(millis(1_000));
  expect(urgent.pings() / relaxed.pings()).toBeCloseTo(10, 0);
  expect(urgent.state.asked).toBeLessThanOrEqual(101);
});
