import type { PullRequest, ResultBatch } from "@tutti/protocol";
import { type ActorKey, actorKey } from "@tutti/units";
import { expect, test } from "vitest";
import { type DataPeer, type DirectClient, type PullOutcome, bothServers, fallbackClient } from "./index.ts";

const KEY = actorKey(1);
const peer: DataPeer = { key: KEY, address: { host: "h", port: 1, tls: false } };
const pull = { seqs: [1] } as unknown as PullRequest;
const results = { batchId: 1 } as unknown as ResultBatch;
const items: PullOutcome = { items: [] };

/** A client with scripted answers that logs its calls. */
class Scripted implements DirectClient {
  readonly log: string[];
  readonly name: string;
  answer: PullOutcome = items;
  connected = true;
  connectDone: (isUp: boolean) => void = () => expect.unreachable();
  before: () => void = () => {};
  constructor(name: string, log: string[]) {
    this.name = name;
    this.log = log;
  }
  pull(_peer: DataPeer, _pull: PullRequest, timeoutMs: number, done: (outcome: PullOutcome) => void): void {
    this.log.push(`${this.name} pull ${timeoutMs}`);
    this.before();
    done(this.answer);
  }
  isConnected(): boolean {
    return this.connected;
  }
  connect(_peer: DataPeer, done: (isUp: boolean) => void): void {
    this.log.push(`${this.name} connect`);
    this.connectDone = (isUp) => {
      this.connected = isUp;
      done(isUp);
    };
  }
  push(): void {
    this.log.push(`${this.name} push`);
  }
  tryPush(): boolean {
    if (this.connected) this.log.push(`${this.name} push`);
    return this.connected;
  }
  forget(key: ActorKey): void {
    this.log.push(`${this.name} forget ${key}`);
  }
  close(done: () => void): void {
    this.log.push(`${this.name} close`);
    done();
  }
}

function pair() {
  const log: string[] = [];
  const time = { now: 0 };
  const direct = new Scripted("direct", log);
  const relayed = new Scripted("relayed", log);
  const client = fallbackClient(direct, relayed, {
    now: () => time.now,
    retryAfterMs: 1_000,
    onSwitch: (key, way) => log.push(`${key} now ${way}`),
  });
  const outcomes: PullOutcome[] = [];
  const ask = (target = peer): void => client.pull(target, pull, 50, (outcome) => outcomes.push(outcome));
  const said = (): string[] => log.splice(0);
  return { direct, relayed, client, time, outcomes, ask, said };
}

test("a peer is asked directly while that works, whatever it answers", () => {
  const { direct, ask, said, outcomes } = pair();
  for (const answer of [items, { failure: "forbidden" }, { failure: "timeout" }] as const) {
    direct.answer = answer;
    ask();
    expect([said(), outcomes.pop()]).toEqual([["direct pull 50"], answer]);
  }
});

test("a pull whose connection breaks is sent the other way at once, with the time that is left", () => {
  const { direct, time, ask, said, outcomes } = pair();
  direct.answer = { failure: "unreachable" };
  direct.before = () => (time.now += 20);
  ask();
  expect(said()).toEqual(["direct pull 50", "relayed pull 30"]);
  expect(outcomes).toEqual([items]);
});

test("no time left is a timeout", () => {
  const { direct, time, ask, said, outcomes } = pair();
  direct.answer = { failure: "unreachable" };
  direct.before = () => (time.now += 60);
  ask();
  expect([said(), outcomes]).toEqual([["direct pull 50"], [{ failure: "timeout" }]]);
});

test("no pull waits for a connection: until one is up all go the other way", () => {
  const { direct, ask, said, outcomes } = pair();
  direct.connected = false;
  ask();
  ask();
  expect(said()).toEqual(["direct connect", "relayed pull 50", "relayed pull 50"]);
  direct.connectDone(true);
  ask();
  expect([said(), outcomes]).toEqual([["direct pull 50"], [items, items, items]]);
});

test("a connection that was closed while idle is made by the next pull, unless that fails", () => {
  const { direct, ask, said, outcomes } = pair();
  direct.connected = false;
  ask();
  direct.connectDone(true);
  direct.connected = false;
  ask();
  expect(said()).toEqual(["direct connect", "relayed pull 50", "direct pull 50"]);
  direct.answer = { failure: "unreachable" };
  ask();
  ask();
  expect(said()).toEqual(["direct pull 50", "relayed pull 50", "direct connect", "relayed pull 50"]);
  expect(outcomes).toEqual([items, items, items, items]);
});

test("a port that doesn't answer is tried again after pauses that grow, and left alone meanwhile", () => {
  const { direct, time, ask, said } = pair();
  direct.connected = false;
  const failsAt = (now: number): void => {
    time.now = now;
    ask();
    expect(said()).toEqual(["direct connect", "relayed pull 50"]);
    direct.connectDone(false);
  };
  const isLeftAloneAt = (now: number): void => {
    time.now = now;
    ask();
    expect(said()).toEqual(["relayed pull 50"]);
  };
  failsAt(0);
  expect(said()).toEqual(["1 now relayed"]);
  isLeftAloneAt(999);
  failsAt(1_000);
  isLeftAloneAt(2_999);
  failsAt(3_000);
  let now = 3_000;
  for (const pause of [4_000, 8_000, 16_000, 32_000, 60_000, 60_000]) {
    isLeftAloneAt(now + pause - 1);
    failsAt((now += pause));
  }
  time.now = now + 60_000;
  ask();
  direct.connectDone(true);
  ask();
  expect(said()).toEqual(["direct connect", "relayed pull 50", "1 now direct", "direct pull 50"]);
});

test("a peer without an address is asked the other way", () => {
  const { direct, ask, said } = pair();
  direct.connected = false;
  ask({ key: KEY, address: undefined });
  expect(said()).toEqual(["relayed pull 50"]);
});

test("results take the direct way where there is a connection, else the other", () => {
  const { direct, client, said } = pair();
  client.push(peer, results);
  direct.connected = false;
  client.push(peer, results);
  expect(said()).toEqual(["direct push", "relayed push"]);
});

test("forgetting and closing reach both, and a forgotten peer is connected to again at once", () => {
  const { direct, client, ask, said } = pair();
  direct.connected = false;
  ask();
  direct.connectDone(false);
  said();
  client.forget(KEY);
  ask();
  const { connectDone } = direct;
  client.forget(KEY);
  connectDone(false);
  expect(said()).toEqual([
    ...["direct forget 1", "relayed forget 1", "direct connect", "relayed pull 50"],
    ...["direct forget 1", "relayed forget 1"],
  ]);
  let closed = false;
  client.close(() => (closed = true));
  expect([said(), closed]).toEqual([["direct close", "relayed close"], true]);
});

test("a connection that is given up because the client closes is no other way", () => {
  const { direct, client, ask, said } = pair();
  direct.connected = false;
  ask();
  client.close(() => undefined);
  direct.connectDone(false);
  expect(said()).toEqual(["direct connect", "relayed pull 50", "direct close", "relayed close"]);
});

test("an ingress with two servers tells the direct one's address and closes both", () => {
  const log: string[] = [];
  const server = (name: string, address: DataPeer["address"]) => ({
    address,
    close: (done: () => void) => {
      log.push(name);
      done();
    },
  });
  const both = bothServers(server("direct", peer.address), server("relayed", undefined));
  expect(both.address).toEqual(peer.address);
  both.close(() => log.push("done"));
  expect(log).toEqual(["direct", "relayed", "done"]);
});
