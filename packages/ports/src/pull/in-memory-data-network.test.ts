import type { PullRequest, ResultBatch } from "@tutti/protocol";
import { type ActorKey, type Micros, actorKey, micros } from "@tutti/units";
import { expect, test } from "vitest";
import { type DataHop, InMemoryDataNetwork, type PullOutcome } from "./index.ts";

/** Time by hand: runs what is due in the order of (instant, call). */
class HandClock {
  now = 0;
  #due: { at: number; run: () => void }[] = [];
  readonly schedule = (delay: Micros, run: () => void): { stop(): void } => {
    const entry = { at: this.now + delay, run };
    this.#due.push(entry);
    return { stop: () => (this.#due = this.#due.filter((other) => other !== entry)) };
  };
  advance(by: number): void {
    const end = this.now + by;
    for (;;) {
      const next = this.#due.reduce<{ at: number; run: () => void } | undefined>(
        (best, entry) => (entry.at <= end && (best === undefined || entry.at < best.at) ? entry : best),
        undefined,
      );
      if (next === undefined) break;
      this.#due = this.#due.filter((other) => other !== next);
      this.now = next.at;
      next.run();
    }
    this.now = end;
  }
  get pending(): number {
    return this.#due.length;
  }
}

const INGRESS = actorKey(1);
const EXECUTOR = actorKey(2);
const pull = { executor: EXECUTOR, gpu: 0, thread: 1, batchId: 1, batcher: 3, token: new Uint8Array(16), seqs: [5] };
const peer = { key: INGRESS, address: undefined };

function network(carry?: (hop: DataHop) => Micros | "lost") {
  const clock = new HandClock();
  const plane = new InMemoryDataNetwork({ schedule: clock.schedule, ...(carry !== undefined && { carry }) });
  const results: ResultBatch[] = [];
  plane.serve(INGRESS, {
    onPull: (asked: PullRequest, reply) =>
      reply(asked.seqs.map((seq) => ({ seq, row: new Uint8Array(40), traceparent: "" }))),
    onResults: (batch) => results.push(batch),
  });
  return { clock, plane, results, client: plane.connect(EXECUTOR) };
}

test("each message takes the delay that it is given, and the network sees what it weighs", () => {
  const hops: DataHop[] = [];
  const { clock, client } = network((hop) => {
    hops.push(hop);
    return micros(hop.kind === "pull" ? 30 : 120);
  });
  const seen: [number, PullOutcome][] = [];
  client.pull(peer, pull, 10, (outcome) => seen.push([clock.now, outcome]));
  clock.advance(149);
  expect(seen).toEqual([]);
  clock.advance(1);
  expect(seen).toEqual([[150, { items: [{ seq: 5, row: new Uint8Array(40), traceparent: "" }] }]]);
  expect(hops).toEqual([
    { kind: "pull", from: EXECUTOR, to: INGRESS, bytes: 0 },
    { kind: "reply", from: INGRESS, to: EXECUTOR, bytes: 40 },
  ]);
  expect(clock.pending).toBe(0); // the time-out is cleared
});

test("a lost pull or reply is a timeout at its time exactly", () => {
  for (const lost of ["pull", "reply"] as const) {
    const { clock, client } = network((hop) => (hop.kind === lost ? "lost" : micros(10)));
    const seen: [number, PullOutcome][] = [];
    client.pull(peer, pull, 2.5, (outcome) => seen.push([clock.now, outcome]));
    clock.advance(100_000);
    expect(seen).toEqual([[2_500, { failure: "timeout" }]]);
  }
});

test("results travel as copies, and may be lost", () => {
  let losing = false;
  const { clock, client, results } = network(() => (losing ? "lost" : micros(10)));
  const outputs = new Uint8Array(8).fill(1);
  const batch = { ...pull, batchSize: 1, startedAt: 0, finishedAt: 0, run: 0 };
  const sent = { ...batch, items: [{ seq: 5, outputs, code: 0, text: "" }] } as unknown as ResultBatch;
  client.push(peer, sent);
  outputs.fill(9);
  losing = true;
  client.push(peer, sent);
  clock.advance(10);
  expect(results.map(({ items }) => [...items[0]!.outputs!])).toEqual([[1, 1, 1, 1, 1, 1, 1, 1]]);
});

test("equal runs give equal histories", () => {
  const history = (): unknown[] => {
    const { clock, client } = network((hop) => (hop.kind === "pull" ? micros(7) : micros(3)));
    const seen: unknown[] = [];
    for (let seq = 1; seq <= 20; seq++)
      client.pull(peer, { ...pull, seqs: [seq] }, 1, (outcome) => seen.push([clock.now, seq, outcome]));
    client.pull({ key: 9 as ActorKey, address: undefined }, pull, 1, (outcome) => seen.push([clock.now, outcome]));
    clock.advance(2_000);
    return seen;
  };
  expect(history()).toEqual(history());
  expect(history()).toHaveLength(21);
});
