import { expect, test } from "vitest";
import { HostBus, InMemoryNetwork, type LinkEnd, type LinkHandlers, type LinkMessage } from "./index.ts";

/** Production's (packages/host): peers miss one heartbeat at most while broadcasts wait for a barrier. */
const HEARTBEAT_MS = 100;

/** Two processes with a link between them. The test decides what arrives when. */
class Pair {
  /** Messages on their way over the connection. */
  readonly #hops: { readonly subject: string; readonly run: () => void }[] = [];
  readonly network = new InMemoryNetwork({
    deliver: (run, { subject }) => this.#hops.push({ subject, run }),
    later: (run) => run(),
  });
  readonly connections = ["a", "b"].map((name) => this.network.connect({ name, noEcho: true }));
  readonly #timers: { readonly delayMs: number; run: () => void }[] = [];
  readonly hosts = this.connections.map(
    (under) =>
      new HostBus({
        under,
        later: (run) => run(),
        startTimer: (delayMs, run) => {
          const timer = { delayMs, run };
          this.#timers.push(timer);
          return { stop: () => void (timer.run = () => undefined) };
        },
      }),
  );
  readonly #handlers = new Map<number, LinkHandlers>();
  readonly #sent: (() => void)[] = [];
  isFull = false;
  closed = 0;

  /** Fires the time-outs that are due by then, and those that they start. */
  expire(afterMs = Infinity): void {
    while (this.#timers.length > 0) this.expireOnce(afterMs);
  }
  expireOnce(afterMs = Infinity): void {
    for (const { delayMs, run } of this.#timers.splice(0)) if (delayMs <= afterMs) run();
  }

  /** Delivers what was sent over the link. */
  settle(): void {
    for (let run = this.#sent.shift(); run !== undefined; run = this.#sent.shift()) run();
  }
  /** Delivers what the connection carries, or loses it. */
  arrive(fate: "arrives" | "is-lost" = "arrives"): string[] {
    const hops = this.#hops.splice(0);
    if (fate === "arrives") for (const { run } of hops) run();
    return hops.map(({ subject }) => subject);
  }

  link(): void {
    this.hosts.forEach((host, i) => host.link(this.#end(i), () => this.closed++));
  }
  #end(own: number): LinkEnd {
    return {
      id: "ab",
      send: (message: LinkMessage) => {
        if (this.isFull || this.closed > 0) return false;
        this.#sent.push(() => this.#handlers.get(1 - own)?.onMessage(message));
        return true;
      },
      open: (handlers) => void this.#handlers.set(own, handlers),
      close: () => this.#handlers.forEach((handlers) => handlers.onClosed()),
    };
  }
}

/** A pair in state `switching`: both ends wait for their barriers, which are on their way over the connection. */
function switching(): { pair: Pair; heard: string[]; publish: (text: string) => void } {
  const pair = new Pair();
  const [a, b] = pair.hosts.map((host) => host.actor());
  const heard: string[] = [];
  b!.subscribe("x", ({ payload }) => heard.push(Buffer.from(payload).toString()), { exclusive: true });
  pair.link();
  pair.settle();
  return { pair, heard, publish: (text) => a!.publish("x", Buffer.from(text)) };
}

test("messages wait for the barrier, and go over the link in order once it has come back", () => {
  const { pair, heard, publish } = switching();
  publish("1");
  pair.settle();
  expect(heard).toEqual([]);
  pair.arrive();
  pair.settle();
  publish("2");
  pair.settle();
  expect(heard).toEqual(["1", "2"]);
  expect(pair.arrive()).toEqual([]);
});

test.each([0, 1])(
  "a link whose barrier is lost with connection %i ends at once: nothing waits for a barrier that does not come",
  (broken) => {
    const { pair, heard, publish } = switching();
    pair.connections[broken]!.disconnect("unconfirmed");
    pair.arrive("is-lost");
    expect(pair.closed).toBe(2);
    pair.connections[broken]!.reconnect();
    publish("1");
    expect(pair.arrive()).toEqual(["x"]);
    expect(heard).toEqual(["1"]);
  },
);

test("when a barrier does not come back, what is for the other end alone goes by the connection, and a broadcast goes no second time", () => {
  const { pair, heard, publish } = switching();
  const [a, b] = pair.hosts.map((host) => host.actor());
  const other = pair.network.connect({ name: "c" });
  const broadcast: string[] = [];
  for (const [name, bus] of [["b", b!] as const, ["c", other] as const])
    bus.subscribe("all", ({ payload }) => broadcast.push(name + Buffer.from(payload).toString()));
  pair.settle();
  pair.arrive("is-lost");
  publish("1");
  a!.publish("all", Buffer.from("2"));
  pair.expire();
  pair.arrive();
  expect([pair.closed, heard, broadcast]).toEqual([2, ["1"], ["c2"]]);
});

test("a stall that outlasts the barrier ends no link whose word has come meanwhile", () => {
  const { pair, heard, publish } = switching();
  publish("1");
  pair.arrive();
  pair.expireOnce();
  pair.settle();
  pair.expire();
  pair.settle();
  expect([pair.closed, heard]).toEqual([0, ["1"]]);
});

test("what waits for a lost barrier takes the connection after a heartbeat's period at most", () => {
  const { pair, heard, publish } = switching();
  pair.arrive("is-lost");
  publish("1");
  pair.expire(HEARTBEAT_MS);
  pair.arrive();
  expect(heard).toEqual(["1"]);
});

test("a link that stands outlives the connection", () => {
  const { pair, heard, publish } = switching();
  pair.arrive();
  pair.settle();
  pair.connections[0]!.disconnect("unconfirmed");
  publish("1");
  pair.settle();
  expect([pair.closed, heard]).toEqual([0, ["1"]]);
});

test("a link that takes no word of what an end subscribes to ends", () => {
  const { pair } = switching();
  pair.isFull = true;
  pair.hosts[1]!.actor().subscribe("y", () => undefined, { exclusive: true });
  expect(pair.closed).toBe(2);
});
