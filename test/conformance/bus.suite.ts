/**
 * The contract of every bus. Run by one test file per bus, so that an actor behaves the same in the simulator and over
 * NATS.
 */
import type { Bus } from "@tutti/ports/bus";
import { isBusFailure } from "@tutti/ports/bus";
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  type BusNetwork,
  Heard,
  NOTHING,
  bytes,
  flushed,
  listen,
  request,
  subjects,
  textOf,
  until,
} from "./bus-tools.ts";
import { busRestrictions } from "./bus-restrictions.ts";
import { busServices } from "./bus-services.ts";

export interface BusTraits {
  /**
   * Whether the connections are of one process, or of linked ones. Messages between them need no server, and go on
   * without one.
   */
  readonly isLocal?: boolean;
}

export function busConformance(name: string, network: () => BusNetwork, { isLocal = false }: BusTraits = {}): void {
  const subject = subjects();
  let a: Bus;
  let b: Bus;
  beforeEach(async () => {
    a = await network().connect();
    b = await network().connect();
  });
  afterEach(() => network().closeAll());

  test(`${name}: messages of one publisher arrive in the order in which they were sent, across subjects too`, async () => {
    const heard = new Heard();
    const prefix = subject();
    b.subscribe(`${prefix}.>`, heard.take);
    await flushed(b);
    for (let i = 0; i < 500; i++) a.publish(`${prefix}.${i % 3}`, bytes(String(i)));
    await heard.count(500);
    expect(heard.texts).toEqual(Array.from({ length: 500 }, (_, i) => String(i)));
  });

  test(`${name}: * stands for one token and > for one or more`, async () => {
    const prefix = subject();
    const heard = { one: new Heard(), rest: new Heard(), exact: new Heard() };
    b.subscribe(`${prefix}.*.c`, heard.one.take);
    b.subscribe(`${prefix}.>`, heard.rest.take);
    b.subscribe(`${prefix}.b.c`, heard.exact.take);
    await flushed(b);
    for (const tail of ["b.c", "x.c", "b", "b.c.d", "b.d"]) a.publish(`${prefix}.${tail}`, bytes(tail));
    a.publish(prefix, bytes("prefix alone"));
    a.publish(`${prefix}.end`, bytes("end"));
    await heard.rest.count(6);
    expect(heard.rest.texts).toEqual(["b.c", "x.c", "b", "b.c.d", "b.d", "end"]);
    expect(heard.one.texts).toEqual(["b.c", "x.c"]);
    expect(heard.exact.texts).toEqual(["b.c"]);
  });

  test(`${name}: each message goes to one member of a queue group, to every member some, and to plain subscribers all`, async () => {
    const to = subject();
    const members = [new Heard(), new Heard(), new Heard()];
    const plain = new Heard();
    b.subscribe(to, members[0]!.take, { queue: "q" });
    b.subscribe(to, members[1]!.take, { queue: "q" });
    const c = await network().connect();
    c.subscribe(to, members[2]!.take, { queue: "q" });
    c.subscribe(to, plain.take);
    await Promise.all([flushed(b), flushed(c)]);
    for (let i = 0; i < 300; i++) a.publish(to, bytes(String(i)));
    await plain.count(300);
    await until(() => members.reduce((sum, { texts }) => sum + texts.length, 0) >= 300);
    const all = members.flatMap(({ texts }) => texts);
    expect(new Set(all).size).toBe(300);
    expect(all.length).toBe(300);
    for (const { texts } of members) expect(texts.length).toBeGreaterThan(10);
  });

  test(`${name}: a request is answered once, with the answer that belongs to it`, async () => {
    const to = subject();
    b.subscribe(to, (delivery) => {
      b.publish(delivery.reply!, bytes(`${textOf(delivery)}!`));
      b.publish(delivery.reply!, bytes("a second answer, which nobody hears"));
    });
    await flushed(b);
    const answers = await Promise.all(Array.from({ length: 200 }, (_, i) => request(a, to, bytes(String(i)))));
    expect(answers.map((answer) => (isBusFailure(answer) ? answer.failure : textOf(answer)))).toEqual(
      Array.from({ length: 200 }, (_, i) => `${i}!`),
    );
  });

  test(`${name}: a request that nobody could hear fails at once, and one that nobody answers at its time-out`, async () => {
    const startedAt = performance.now();
    expect(await request(a, subject(), NOTHING, { timeoutMs: 10_000 })).toEqual({ failure: "no-responders" });
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    const silent = subject();
    b.subscribe(silent, () => {});
    await flushed(b);
    expect(await request(a, silent, NOTHING, { timeoutMs: 20 })).toEqual({ failure: "timeout" });
  });

  test(`${name}: a publisher's own inbox hears that nobody is there, as status 503`, async () => {
    const inbox = a.newInbox();
    const heard = new Heard();
    a.subscribe(inbox, heard.take);
    await flushed(a);
    a.publish(subject(), NOTHING, { reply: inbox });
    await heard.count(1);
    expect(heard.deliveries[0]!.header("Status")).toBe("503");
    expect(heard.deliveries[0]!.payload.length).toBe(0);
  });

  test(`${name}: an inbox is new each time, and what is sent there is heard`, async () => {
    const inboxes = Array.from({ length: 100 }, () => a.newInbox());
    expect(new Set([...inboxes, b.newInbox()]).size).toBe(101);
    const heard = new Heard();
    a.subscribe(inboxes[0]!, heard.take);
    await flushed(a);
    b.publish(inboxes[0]!, bytes("hello"));
    b.publish(inboxes[1]!, bytes("not subscribed"));
    b.publish(inboxes[0]!, bytes("again"));
    await heard.count(2);
    expect(heard.texts).toEqual(["hello", "again"]);
  });

  test(`${name}: a message of the largest size passes, and one byte more is refused by the call itself`, async () => {
    const to = subject();
    const heard = new Heard();
    b.subscribe(to, heard.take);
    await flushed(b);
    const limit = a.payloadMax;
    expect(a.publish(to, new Uint8Array(limit + 1))).toBe(false);
    expect(a.publish(to, new Uint8Array(limit), { headers: { Key: "value" } })).toBe(false);
    expect(await request(a, to, new Uint8Array(limit + 1))).toEqual({ failure: "too-large" });
    expect(a.publish(to, new Uint8Array(limit))).toBe(true);
    await heard.count(1);
    expect(heard.deliveries[0]!.payload.length).toBe(limit);
  });

  test(`${name}: headers arrive as they were sent, and their names are case-sensitive`, async () => {
    const to = subject();
    const heard = new Heard();
    b.subscribe(to, heard.take);
    await flushed(b);
    a.publish(to, bytes("x"), { headers: { "Tutti-Slo": "25ms", traceparent: "00-ab-cd-01", Umlaut: "größer" } });
    a.publish(to, bytes("none"));
    await heard.count(2);
    const [first, second] = heard.deliveries;
    expect(["Tutti-Slo", "traceparent", "Umlaut", "tutti-slo", "constructor"].map((key) => first!.header(key))).toEqual(
      ["25ms", "00-ab-cd-01", "größer", undefined, undefined],
    );
    expect(first!.reply).toBeUndefined();
    expect(textOf(first!)).toBe("x");
    expect(second!.header("Tutti-Slo")).toBeUndefined();
  });

  test(`${name}: a header or a subject that would break the protocol's frame is refused, and the connection lives on`, async () => {
    const to = subject();
    const heard = new Heard();
    b.subscribe(to, heard.take);
    await flushed(b);
    expect(a.publish(to, NOTHING, { headers: { Key: "value\r\nOther: injected" } })).toBe(false);
    expect(a.publish(to, NOTHING, { headers: { "Key: x": "y" } })).toBe(false);
    expect(a.publish(`${to} 0\r\nPUB other`, NOTHING)).toBe(false);
    expect(a.publish("", NOTHING)).toBe(false);
    expect(a.publish(to, NOTHING, { reply: "no reply" })).toBe(false);
    a.subscribe(`${to} 1\r\n`, () => {});
    expect(a.publish(to, bytes("fine"))).toBe(true);
    await heard.count(1);
    expect(heard.texts).toEqual(["fine"]);
  });

  test(`${name}: the payload may be used again as soon as publish returns`, async () => {
    const to = subject();
    const heard = new Heard();
    b.subscribe(to, heard.take);
    await flushed(b);
    for (const length of [64, 200_000]) {
      const payload = new Uint8Array(length).fill(1);
      a.publish(to, payload);
      payload.fill(2);
    }
    await heard.count(2);
    for (const { payload } of heard.deliveries) expect(payload.every((byte) => byte === 1)).toBe(true);
  });

  test(`${name}: a slice of a payload is a copy, which later deliveries leave alone`, async () => {
    const to = subject();
    const kept: Uint8Array[] = [];
    const heard = new Heard();
    b.subscribe(to, (delivery) => {
      kept.push(delivery.payload.slice());
      delivery.payload.fill(0);
      heard.take(delivery);
    });
    await flushed(b);
    for (const text of ["one", "two"]) a.publish(to, bytes(text));
    await heard.count(2);
    expect(kept).toEqual([bytes("one"), bytes("two")]);
    expect(kept.map(({ constructor }) => constructor)).toEqual([Uint8Array, Uint8Array]);
  });

  test(`${name}: a handler that throws is reported, and the next delivery comes all the same`, async () => {
    const to = subject();
    const heard = new Heard();
    const statuses = listen(b);
    b.subscribe(to, (delivery) => {
      heard.take(delivery);
      if (heard.texts.length === 1) throw new Error("the handler broke");
    });
    await flushed(b);
    a.publish(to, bytes("first"));
    a.publish(to, bytes("second"));
    await heard.count(2);
    await until(() => statuses.some((status) => status.kind === "error" && status.text.includes("the handler broke")));
  });

  test(`${name}: a subscription that is stopped hears nothing more, and its neighbour everything`, async () => {
    const to = subject();
    const [stopped, other] = [new Heard(), new Heard()];
    const subscription = b.subscribe(to, stopped.take);
    b.subscribe(to, other.take);
    await flushed(b);
    a.publish(to, bytes("1"));
    await Promise.all([stopped.count(1), other.count(1)]);
    subscription.stop();
    subscription.stop();
    await flushed(b);
    a.publish(to, bytes("2"));
    await other.count(2);
    expect(stopped.texts).toEqual(["1"]);
  });

  test(`${name}: a subscription that is drained hears all that the server has sent it, then nothing more, and its group takes over`, async () => {
    const to = subject();
    const c = await network().connect();
    const [leaving, staying] = [new Heard(), new Heard()];
    const subscription = b.subscribe(to, leaving.take, { queue: "q" });
    c.subscribe(to, staying.take, { queue: "q" });
    await Promise.all([flushed(b), flushed(c)]);
    const publish = (first: number): void => {
      for (let i = first; i < first + 2_000; i++) a.publish(to, bytes(String(i)));
    };
    publish(0);
    await leaving.count(1);
    publish(2_000);
    let heardWhenDrained = -1;
    const drained = new Promise<void>((resolve) =>
      subscription.drain(() => {
        heardWhenDrained = leaving.texts.length;
        resolve();
      }),
    );
    expect(heardWhenDrained).toBe(-1);
    publish(4_000);
    await drained;
    publish(6_000);
    await flushed(a);
    await until(() => leaving.texts.length + staying.texts.length >= 8_000);
    expect(new Set([...leaving.texts, ...staying.texts]).size).toBe(8_000);
    expect(leaving.texts.length).toBe(heardWhenDrained);
  });

  test.skipIf(isLocal)(
    `${name}: draining ends also when there is nothing to wait for, twice, when the connection is away, and when it is closed`,
    async () => {
      const to = subject();
      const drained = (subscription: { drain(done: () => void): void }): Promise<void> =>
        new Promise((resolve) => subscription.drain(resolve));
      const first = b.subscribe(to, () => {});
      await Promise.all([drained(first), drained(first)]);
      await drained(first);
      first.stop();
      const second = b.subscribe(to, () => {});
      const third = b.subscribe(to, () => {});
      second.stop();
      await drained(second);
      await network().cut();
      await until(() => !b.connected);
      await drained(third);
      await network().heal();
      await until(() => a.connected && b.connected);
      expect(await request(a, to, NOTHING)).toEqual({ failure: "no-responders" });
      const fourth = b.subscribe(to, () => {});
      await new Promise<void>((resolve) => b.close(resolve));
      await drained(fourth);
      await drained(b.subscribe(to, () => {}));
    },
  );

  busRestrictions(
    name,
    () => [a, b],
    () => network().connectRestricted(),
  );

  test.skipIf(isLocal)(
    `${name}: after a break subscriptions live again, and what happened is told in order`,
    async () => {
      const to = subject();
      const heard = new Heard();
      const statuses = listen(b);
      b.subscribe(to, heard.take);
      const silent = subject();
      b.subscribe(silent, () => {});
      await flushed(b);
      const pending = request(a, silent, NOTHING, { timeoutMs: 60_000 });
      await flushed(a);
      await network().cut();
      await until(() => !a.connected && !b.connected);
      expect(await pending).toEqual({ failure: "closed" });
      expect(a.publish(to, bytes("lost"))).toBe(false);
      expect(await request(a, to, NOTHING)).toEqual({ failure: "closed" });
      expect(await new Promise((resolve) => a.flush(resolve))).toBe(false);
      await network().heal();
      await until(() => a.connected && b.connected);
      await flushed(b);
      expect(a.publish(to, bytes("after"))).toBe(true);
      await heard.count(1);
      expect(heard.texts).toEqual(["after"]);
      const answerer = subject();
      b.subscribe(answerer, (delivery) => b.publish(delivery.reply!, bytes("here")));
      await flushed(b);
      expect(isBusFailure(await request(a, answerer, NOTHING))).toBe(false);
      expect(statuses.map(({ kind }) => kind)).toEqual(["disconnected", "reconnected"]);
    },
  );

  busServices(name, () => [a, b], subject);

  test.runIf(isLocal)(`${name}: while the server is away, what passes within the process goes on`, async () => {
    const to = subject();
    const heard = new Heard();
    b.subscribe(to, heard.take, { exclusive: true });
    await until(() => a.isNear?.(to) === true);
    await network().cut();
    await until(() => !a.connected);
    expect(a.publish(to, bytes("here"))).toBe(true);
    await heard.count(1);
    expect(heard.texts).toEqual(["here"]);
    await network().heal();
    await until(() => a.connected);
  });

  test(`${name}: what its only subscriber gets nearby is heard once, also beside broadcasts, in order`, async () => {
    const [to, all] = [subject(), subject()];
    const heard = new Heard();
    b.subscribe(to, heard.take, { exclusive: true });
    b.subscribe(all, heard.take);
    await flushed(b);
    for (let i = 0; i < 400; i++) a.publish(i % 3 === 0 ? all : to, bytes(String(i)));
    await heard.count(400);
    await flushed(a);
    await flushed(b);
    expect(heard.texts).toEqual(Array.from({ length: 400 }, (_, i) => String(i)));
  });

  test(`${name}: an actor hears what it publishes itself, to its own subject and to all`, async () => {
    const [to, all] = [subject(), subject()];
    const heard = new Heard();
    a.subscribe(to, heard.take, { exclusive: true });
    a.subscribe(all, heard.take);
    await flushed(a);
    a.publish(to, bytes("to me"));
    a.publish(all, bytes("to all"));
    await heard.count(2);
    expect(heard.texts.sort()).toEqual(["to all", "to me"]);
  });

  test(`${name}: closing sends what was published before, says so, and leaves a bus that refuses without throwing`, async () => {
    const to = subject();
    const heard = new Heard();
    const statuses = listen(a);
    b.subscribe(to, heard.take);
    await flushed(b);
    a.publish(to, bytes("last words"));
    await new Promise<void>((resolve) => a.close(resolve));
    await heard.count(1);
    expect(statuses.at(-1)).toEqual({ kind: "closed", reason: "closed by its owner" });
    expect(a.connected).toBe(false);
    expect(a.publish(to, NOTHING)).toBe(false);
    expect(await request(a, to, NOTHING)).toEqual({ failure: "closed" });
    a.subscribe(to, () => {}).stop();
    expect(await new Promise((resolve) => a.flush(resolve))).toBe(false);
    await new Promise<void>((resolve) => a.close(resolve));
  });
}
