import { Prng } from "@tutti/units";
import { expect, test } from "vitest";
import { type Hop, InMemoryNetwork } from "./index.ts";

const bytes = (...values: number[]): Uint8Array => new Uint8Array(values);

test("a scheduler sees every hop and may drop, repeat and reorder it", () => {
  const held: { readonly run: () => void; readonly hop: Hop }[] = [];
  const network = new InMemoryNetwork({ deliver: (run, hop) => held.push({ run, hop }) });
  const [from, to] = [network.connect({ name: "from" }), network.connect({ name: "to" })];
  const heard: number[] = [];
  to.subscribe("x.*", ({ payload }) => heard.push(payload[0]!));
  for (const i of [1, 2, 3]) from.publish(`x.${i}`, bytes(i));
  expect(heard).toEqual([]);
  expect(held.map(({ hop }) => hop)).toEqual(
    [1, 2, 3].map((i) => ({ from: "from", to: "to", subject: `x.${i}`, bytes: 1 })),
  );
  held[2]!.run();
  held[0]!.run();
  held[0]!.run();
  expect(heard).toEqual([3, 1, 1]);
});

test("what is on its way to a connection that breaks or closes is lost", () => {
  const held: (() => void)[] = [];
  const network = new InMemoryNetwork({ deliver: (run) => held.push(run) });
  const [from, to] = [network.connect({ name: "from" }), network.connect({ name: "to" })];
  const heard: number[] = [];
  to.subscribe("x", ({ payload }) => heard.push(payload[0]!));
  from.publish("x", bytes(1));
  to.disconnect();
  held.shift()!();
  expect(from.publish("x", bytes(2))).toBe(true);
  expect(held).toEqual([]);
  to.reconnect();
  from.publish("x", bytes(3));
  held.shift()!();
  from.publish("x", bytes(4));
  to.close(() => {});
  held.shift()!();
  expect(heard).toEqual([3]);
});

test("equal seeds choose equal members of a queue group", () => {
  const chosen = (seed: number): string => {
    const prng = new Prng(seed);
    const network = new InMemoryNetwork({ deliver: (run) => run(), choose: (count) => prng.nextInt(count) });
    const bus = network.connect({ name: "a" });
    let log = "";
    for (const member of ["p", "q", "r"]) bus.subscribe("x", () => (log += member), { queue: "g" });
    for (let i = 0; i < 30; i++) bus.publish("x", bytes(i));
    return log;
  };
  expect(chosen(1)).toBe(chosen(1));
  expect(chosen(1)).not.toBe(chosen(2));
});

test("time-outs run on the injected timers alone", () => {
  const timers: { readonly delayMs: number; readonly run: () => void }[] = [];
  const queue: (() => void)[] = [];
  const network = new InMemoryNetwork({
    deliver: (run) => run(),
    later: (run) => queue.push(run),
    startTimer: (delayMs, run) => {
      timers.push({ delayMs, run });
      return { stop: () => {} };
    },
  });
  const bus = network.connect({ name: "a" });
  bus.subscribe("silent", () => {});
  let result: unknown;
  bus.request("silent", bytes(), { timeoutMs: 30 }, (answer) => (result = answer));
  expect(timers.map(({ delayMs }) => delayMs)).toEqual([30]);
  timers[0]!.run();
  for (const run of queue.splice(0)) run();
  expect(result).toEqual({ failure: "timeout" });
});
