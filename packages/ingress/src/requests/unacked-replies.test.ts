import { type Delivery, InMemoryNetwork } from "@tutti/ports/bus";
import { VirtualClock } from "@tutti/ports/clock";
import { after, instant, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { AWAY_MAX, UnackedReplies } from "./unacked-replies.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const settled = async (): Promise<void> => {
  for (let i = 0; i < 20; i++) await Promise.resolve();
};

/** An ingress' connection and a publisher's; `lost`: messages that the connection loses when it breaks. */
function scene(options: { keptMax?: number; awayMax?: number } = {}) {
  const clock = new VirtualClock({ startAt: instant(1_000_000) });
  let loses = false;
  const network = new InMemoryNetwork({
    deliver: (run, { from, subject }) => {
      if (loses && from === "ingress" && subject.startsWith("_INBOX.app")) return false;
      queueMicrotask(run);
      return true;
    },
  });
  const bus = network.connect({ name: "ingress" });
  const publisher = network.connect({ name: "publisher", inboxPrefix: "_INBOX.app" });
  const heard: string[] = [];
  publisher.subscribe("_INBOX.app.>", ({ payload }: Delivery) => heard.push(new TextDecoder().decode(payload)));
  const unackedReplies = new UnackedReplies({ bus, clock, ...options });
  const run = async (ms: number): Promise<void> => {
    for (let i = 0; i < ms; i++) {
      clock.advanceTo(after(clock.now(), millis(1)));
      await settled();
    }
  };
  const send = (text: string): void => unackedReplies.send("_INBOX.app.1", bytes(text), undefined);
  return { clock, bus, publisher, heard, kept: unackedReplies, run, send, lose: (on: boolean) => (loses = on) };
}

test("an answer is sent at once, kept until the server has confirmed it, and then no more", async () => {
  const { kept: unackedReplies, heard, run, send } = scene();
  send("a");
  await settled();
  expect([heard, unackedReplies.size]).toEqual([["a"], 1]);
  await run(10);
  expect([heard, unackedReplies.size, unackedReplies.repeated, unackedReplies.lost]).toEqual([["a"], 0, 0, 0]);
});

test("what was answered while the connection was away, or lost with it, comes when it is back, in order", async () => {
  const { bus, kept: unackedReplies, heard, run, send, lose } = scene();
  send("confirmed");
  await run(10);
  lose(true);
  send("lost with the connection");
  lose(false);
  bus.disconnect();
  send("while away 1");
  send("while away 2");
  await run(300);
  expect(heard).toEqual(["confirmed"]);
  bus.reconnect();
  await run(10);
  expect(heard).toEqual(["confirmed", "lost with the connection", "while away 1", "while away 2"]);
  expect([unackedReplies.size, unackedReplies.repeated, unackedReplies.lost]).toEqual([0, 1, 0]);
});

test("an answer of which nobody knows whether it got there is repeated", async () => {
  const { bus, kept: unackedReplies, heard, run, send } = scene();
  send("a");
  await settled();
  bus.disconnect();
  bus.reconnect();
  await run(10);
  expect([heard, unackedReplies.size, unackedReplies.repeated]).toEqual([["a", "a"], 0, 1]);
});

test("a server that ends takes along what it has just confirmed and not passed on: that comes again too", async () => {
  const { bus, kept: unackedReplies, heard, run, send, lose } = scene();
  send("passed on");
  await run(12);
  lose(true);
  send("taken along");
  lose(false);
  await run(5);
  expect(unackedReplies.size).toBe(0);
  bus.disconnect();
  await run(300);
  bus.reconnect();
  await run(12);
  expect([heard, unackedReplies.repeated]).toEqual([["passed on", "taken along"], 1]);
  bus.disconnect();
  bus.reconnect();
  await run(12);
  expect([heard.length, unackedReplies.repeated]).toEqual([2, 1]);
});

test("an answer waits for its publisher, whose connection is away too when a server restarts", async () => {
  const { bus, publisher, kept: unackedReplies, heard, run, send } = scene();
  for (const one of [bus, publisher]) one.disconnect();
  send("a");
  await run(50);
  bus.reconnect();
  await run(300);
  send("b");
  await run(300);
  expect([heard, unackedReplies.size]).toEqual([[], 2]);
  publisher.reconnect();
  await run(600);
  expect([[...heard].sort(), unackedReplies.size, unackedReplies.lost]).toEqual([["a", "b"], 0, 0]);
});

test("nobody waits for a publisher that is gone", async () => {
  const { publisher, kept: unackedReplies, run, send } = scene();
  await new Promise<void>((resolve) => publisher.close(resolve));
  send("a");
  await run(6_500);
  expect([unackedReplies.size, unackedReplies.lost]).toEqual([0, 1]);
});

test("an answer that waited ten seconds for a connection is of no use to anybody", async () => {
  const { bus, kept: unackedReplies, heard, run, send } = scene();
  bus.disconnect();
  send("old");
  await run(9_000);
  send("young");
  await run(2_000);
  bus.reconnect();
  await run(10);
  expect([heard, unackedReplies.size, unackedReplies.lost]).toEqual([["young"], 0, 1]);
});

test("answers that can't leave are bounded in number: the oldest are let go (T7)", async () => {
  const { bus, kept: unackedReplies, heard, run, send } = scene({ keptMax: 64 });
  bus.disconnect();
  for (let i = 0; i < 1_000; i++) send(String(i));
  expect(unackedReplies.size).toBeLessThanOrEqual(64);
  bus.reconnect();
  await run(10);
  expect(heard.at(-1)).toBe("999");
  expect(heard.length + unackedReplies.lost).toBe(1_000);
  expect(heard.length).toBeGreaterThanOrEqual(56);
});

test("answers that can't leave are bounded in bytes (T7)", async () => {
  const { bus, kept: unackedReplies } = scene();
  bus.disconnect();
  const large = new Uint8Array(1_000_000);
  for (let i = 0; i < 100; i++) unackedReplies.send("_INBOX.app.1", large, undefined);
  expect(unackedReplies.size).toBeLessThan(68);
  expect(unackedReplies.lost).toBe(100 - unackedReplies.size);
});

test("answers to publishers that are away are bounded, and push none of the others out (T7)", async () => {
  const { kept: unackedReplies, heard, run, send } = scene();
  for (let i = 0; i < AWAY_MAX + 100; i++) unackedReplies.send("_INBOX.other.1", bytes("x"), undefined);
  await run(10);
  send("here");
  await run(10);
  expect([heard, unackedReplies.lost]).toEqual([["here"], 100]);
  expect(unackedReplies.size).toBe(AWAY_MAX);
});

test("a drain ends when all have left, and does not wait long for who is away", async () => {
  const first = scene();
  first.send("a");
  let done = 0;
  first.kept.drain(() => done++);
  await first.run(1);
  expect([first.heard, done]).toEqual([["a"], 1]);
  const second = scene();
  second.bus.disconnect();
  second.send("a");
  second.kept.drain(() => done++);
  await second.run(100);
  expect(done).toBe(1);
  second.bus.reconnect();
  await second.run(10);
  expect([second.heard, done]).toEqual([["a"], 2]);
  const third = scene();
  third.bus.disconnect();
  third.send("a");
  third.kept.drain(() => done++);
  await third.run(seconds(2) / 1_000 + 10);
  expect(done).toBe(3);
});

test("a forged notice that nobody listens costs a repeat at most", async () => {
  const { publisher, kept: unackedReplies, heard, run, send } = scene();
  for (const subject of [
    "_INBOX.ingress.i.1.0",
    "_INBOX.ingress.i.1.zz",
    "_INBOX.ingress.i.1.!",
    "_INBOX.ingress.i.1.-1",
  ])
    publisher.publish(subject, new Uint8Array(0), { headers: { Status: "503" } });
  send("a");
  publisher.publish("_INBOX.ingress.i.1.0", bytes("not empty"));
  publisher.publish("_INBOX.ingress.i.1.0", new Uint8Array(0), { headers: { Status: "503" } });
  await run(100);
  expect([heard, unackedReplies.size, unackedReplies.lost]).toEqual([["a", "a"], 0, 0]);
});
