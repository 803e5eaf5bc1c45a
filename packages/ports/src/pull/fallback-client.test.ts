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

test("an unreachable peer is asked the other way at once, with the time that is left", () => {
  const { direct, time, ask, said, outcomes } = pair();
  direct.answer = { failure: "unreachable" };
  direct.before = () => (time.now += 20);
  ask();
  expect(said()).toEqual(["direct pull 50", "1 now relayed", "relayed pull 30"]);
  expect(outcomes).toEqual([items]);
});

test("no time left is a timeout", () => {
  const { direct, time, ask, said, outcomes } = pair();
  direct.answer = { failure: "unreachable" };
  direct.before = () => (time.now += 60);
  ask();
  expect([said(), outcomes]).toEqual([["direct pull 50", "1 now relayed"], [{ failure: "timeout" }]]);
});

test("the direct way is tried again after a while, by one pull at a time, and kept once it works", () => {
  const { direct, time, ask, said } = pair();
  direct.answer = { failure: "unreachable" };
  ask();
  said();
  time.now = 900;
  ask();
  expect(said()).toEqual(["relayed pull 50"]);
  time.now = 1_000;
  direct.before = () => {
    direct.before = () => {};
    ask(); // while the first one tries
  };
  ask();
  expect(said()).toEqual(["direct pull 50", "relayed pull 50", "relayed pull 50"]);
  time.now = 2_500;
  direct.answer = items;
  ask();
  ask();
  expect(said()).toEqual(["direct pull 50", "1 now direct", "direct pull 50"]);
});

test("a peer without an address is asked the other way", () => {
  const { ask, said } = pair();
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

test("forgetting and closing reach both, and a forgotten peer is tried directly again", () => {
  const { direct, client, ask, said } = pair();
  direct.answer = { failure: "unreachable" };
  ask();
  said();
  client.forget(KEY);
  ask();
  expect(said().slice(0, 3)).toEqual(["direct forget 1", "relayed forget 1", "direct pull 50"]);
  said();
  let closed = false;
  client.close(() => (closed = true));
  expect([said(), closed]).toEqual([["direct close", "relayed close"], true]);
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
