/**
 * Compromised actors that go on under their own names. For a while they replay recorded messages, in any order, and
 * with other numbers. Meanwhile they may do harm. Once they stop, service returns within five seconds, since every
 * false belief is corrected or expires.
 */
import type { Role } from "@tutti/protocol";
import { type ActorKey, Prng, after, micros, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { type Said, asOf, frameOf, saidIn, withOtherNumbers } from "./message-mutation.ts";
import { VirtualCluster } from "./virtual-cluster.ts";

const SEEDS = 12;
const ROLES: readonly Role[] = ["ranker", "batcher", "executor", "ingress"];
const ATTACK = millis(600);
const RETURNS_WITHIN = seconds(5);

/** A cluster that serves two models, and the recorded messages of its actors of a role. */
function recorded(role: Role, seed: number) {
  const cluster = new VirtualCluster({ seed, moves: true, executors: 2, gpus: 2, batchers: 2, rankers: 2 });
  for (const name of ["m", "other"]) cluster.addModel({ name, alphaMs: 1, betaMs: 3, sloMs: 50 });
  const keys = new Set<ActorKey>();
  for (const [name, { actor }] of cluster.running) if (name.startsWith(role)) keys.add(actor.key);
  const said: Said[] = [];
  const listening = cluster.network.connect({ name: "tap" }).subscribe(">", ({ subject, payload }) => {
    if (!subject.startsWith("tutti.")) return;
    for (const one of saidIn(subject, payload, cluster.clock.now())) if (keys.has(one.sender)) said.push(one);
  });
  cluster.run(seconds(1));
  for (const name of ["m", "other"]) cluster.load(name, { rate: 150, duration: millis(300), sloMs: 50 });
  cluster.run(millis(200));
  listening.stop();
  return { cluster, said };
}

/** Asks both models every 20 ms. @returns the requests */
function ask(cluster: VirtualCluster, duration: number) {
  const first = cluster.asked.length;
  const end = cluster.clock.now() + duration;
  for (let i = 0; cluster.clock.now() < end; i++) {
    cluster.ask(i % 2 === 0 ? "m" : "other", { sloMs: 60 });
    cluster.run(millis(20));
  }
  return cluster.asked.slice(first);
}

const outcomesOf = (asked: ReturnType<typeof ask>): string[] =>
  asked.map(({ outcomes }) => outcomes.map(({ status }) => status).join("+"));

/** Publishes replayed and altered messages. @returns what was sent, to explain a failure */
function attack(cluster: VirtualCluster, said: readonly Said[], prng: Prng): string[] {
  const enemy = cluster.network.connect({ name: "enemy" });
  // Every kind of message is equally likely, since most traffic is of a few kinds.
  const byType = Map.groupBy(said, ({ type }) => type);
  const kinds = [...byType.values()];
  const sent: string[] = [];
  const end = after(cluster.clock.now(), ATTACK);
  while (cluster.clock.now() < end) {
    cluster.ask(prng.nextInt(2) === 0 ? "m" : "other", { sloMs: 60 });
    for (let i = 0; i < 6; i++) {
      const kind = kinds[prng.nextInt(kinds.length)]!;
      const old = kind[prng.nextInt(kind.length)]!;
      const one = prng.nextInt(2) === 0 ? old : asOf(cluster.clock.now(), old);
      const lie = prng.nextInt(4) === 0 ? one : withOtherNumbers(one, kind, prng);
      const frame = frameOf(lie);
      if (frame !== undefined) enemy.publish(lie.subject, frame);
      if (frame !== undefined) sent.push(`${lie.type.name} ${JSON.stringify(lie.value).slice(0, 300)}`);
      cluster.run(micros(1_000));
    }
  }
  return sent;
}

/** Fields that some receiver believes, and would keep for good. */
const BELIEVED: readonly (readonly [role: Role, message: string, field: string])[] = [
  ["ranker", "gpu-granted", "epoch"],
  ["ranker", "gpu-granted", "grantSeq"],
  ["ranker", "gpu-granted", "sentAt"],
  ["ranker", "gpu-granted", "validUntil"],
  ["ranker", "ranker-announced", "epoch"],
  ["ranker", "heartbeat", "epoch"],
  ["batcher", "candidate-offered", "term"],
  ["batcher", "candidate-offered", "offerSeq"],
  ["batcher", "candidate-offered", "execAt"],
  ["batcher", "grant-answered", "freeAt"],
  ["batcher", "batch-dispatched", "term"],
  ["batcher", "batch-dispatched", "grantSeq"],
  ["batcher", "batch-dispatched", "expectedRun"],
  ["executor", "gpu-freed", "freeAt"],
  ["executor", "gpu-freed", "grantSeq"],
  ["executor", "batch-finished", "run"],
  ["ingress", "request-arrived", "arrivalSeq"],
  ["ingress", "request-arrived", "deadline"],
  ["ingress", "request-arrived", "arrivedAt"],
];
const SHIFTS = [2 ** 20, 2 ** 29, 2 ** 45, Infinity];

test.each(BELIEVED)(
  "what a %s says once, a %s with another %s, keeps nobody from being served",
  (role, name, field) => {
    for (const shift of SHIFTS) {
      const { cluster, said } = recorded(role, 5);
      const enemy = cluster.network.connect({ name: "enemy" });
      const alike = said.filter(({ type }) => type.name === name).slice(-20);
      expect(alike.length).toBeGreaterThan(0);
      for (const old of alike) {
        const one = asOf(cluster.clock.now(), old);
        const now = one.value as Record<string, number>;
        const next = now["grantSeq"] === undefined ? {} : { grantSeq: now["grantSeq"] + 1_000 };
        const value = { ...now, ...next, [field]: now[field]! + shift };
        const frame = frameOf({ ...one, value });
        if (frame !== undefined) enemy.publish(one.subject, frame);
      }
      ask(cluster, RETURNS_WITHIN);
      const later = ask(cluster, millis(500));
      cluster.run(millis(200));
      expect([shift, new Set(outcomesOf(later))]).toEqual([shift, new Set(["ok"])]);
    }
  },
);

test.each(ROLES.flatMap((role) => Array.from({ length: SEEDS }, (_, seed) => [role, seed + 1] as const)))(
  "service returns within 5 s of an attack by actors of the role %s (seed %i)",
  (role, seed) => {
    const { cluster, said } = recorded(role, seed);
    const { faults } = cluster;
    expect(said.length).toBeGreaterThan(50);
    const sent = attack(cluster, said, new Prng(1_000 * seed + ROLES.indexOf(role)));
    expect(faults).toEqual([]);
    ask(cluster, RETURNS_WITHIN);
    const later = ask(cluster, seconds(1));
    cluster.run(millis(200));
    expect(new Set(outcomesOf(later)), sent.slice(-20).join("\n")).toEqual(new Set(["ok"]));
    expect(later.every(({ value, outcomes: [first] }) => first?.value === value)).toBe(true);
    expect(faults).toEqual([]);
  },
);
