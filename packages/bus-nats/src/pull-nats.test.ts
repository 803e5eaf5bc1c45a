import { type Delivery, InMemoryNetwork } from "@tutti/ports/bus";
import { type BatchDispatched, type PullRequest, type PulledItem, TOKEN_BYTES, subjectsOf } from "@tutti/protocol";
import type { DataClient, DataPeer, PullOutcome } from "@tutti/ports/pull";
import { actorKey, instant, micros } from "@tutti/units";
import { encodeFragments, encodePull, encodeReply, joinFrame } from "@tutti/wire";
import fc from "fast-check";
import { expect, test } from "vitest";
import { NatsDataClient, nearFirst, serveNats } from "./pull-nats.ts";

const INGRESS = actorKey(1_001);
const EXECUTOR = actorKey(2_002);
const subjects = subjectsOf("c");
const REPLY = `${subjects.bulkReply(EXECUTOR)}-${INGRESS.toString(36)}`;
const peer = { key: INGRESS, address: undefined };
const pullOf = (seqs: number[]): PullRequest => ({
  executor: EXECUTOR,
  gpu: 0,
  thread: 64,
  batchId: 1,
  batcher: 9,
  token: new Uint8Array(TOKEN_BYTES),
  seqs,
});
const itemOf = (seq: number, byteLength: number): PulledItem => ({
  seq,
  row: new Uint8Array(byteLength).fill(seq),
  traceparent: "",
});

function plane(rowBytes = 8, payloadMax = 1_048_576) {
  const messages: { subject: string; bytes: number }[] = [];
  const network = new InMemoryNetwork({
    payloadMax,
    deliver: (run, { subject, bytes }) => {
      messages.push({ subject, bytes });
      queueMicrotask(run);
    },
  });
  const bus = network.connect({ name: "ingress" });
  const faults: string[] = [];
  const server = serveNats({
    bus,
    cluster: "c",
    key: INGRESS,
    onFault: (text) => faults.push(text),
    handlers: { onPull: (pull, reply) => reply(pull.seqs.map((seq) => itemOf(seq, rowBytes))), onResults: () => {} },
  });
  const executorBus = network.connect({ name: "executor" });
  const client = new NatsDataClient({ bus: executorBus, cluster: "c", key: EXECUTOR });
  const pull = (seqs: number[], timeoutMs = 5_000): Promise<PullOutcome> =>
    new Promise((resolve) => client.pull(peer, pullOf(seqs), timeoutMs, resolve));
  return { network, messages, bus, server, client, executorBus, faults, pull };
}

test("results leave before the call returns, with the pulls that wait", () => {
  const { client, messages, pull } = plane();
  void pull([1]);
  expect(messages).toEqual([]);
  client.push(peer, {
    ...{ executor: EXECUTOR, gpu: 0, thread: 64, batchId: 1, batcher: 9, token: new Uint8Array(TOKEN_BYTES) },
    ...{ batchSize: 1, startedAt: instant(1), finishedAt: instant(2), run: micros(1) },
    items: [{ seq: 1, outputs: new Uint8Array(8), code: 0, text: "" }],
  });
  expect(messages.map(({ subject }) => subject)).toEqual([subjects.bulk(INGRESS)]);
});

test("pulls of one turn to one ingress travel as one message", async () => {
  const { messages, pull } = plane();
  await Promise.all([pull([1]), pull([2]), pull([3])]);
  expect(messages.map(({ subject }) => subject)).toEqual([subjects.bulk(INGRESS), REPLY]);
});

test("nothing that is published to an ingress' or an executor's subject stops it", async () => {
  const { network, server, client, faults, pull } = plane();
  expect(await pull([1])).toEqual({ items: [itemOf(1, 8)] });
  const stranger = network.connect({ name: "stranger" });
  const frames = [encodePull(pullOf([1]), 1), ...encodeReply([itemOf(1, 40)], 1)].map(joinFrame);
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...frames, new Uint8Array(0)),
      fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 5 }),
      fc.constantFrom(subjects.bulk(INGRESS), REPLY),
      async (frame, edits, subject) => {
        const bytes = new Uint8Array(frame);
        for (const [at, byte] of edits) bytes[at % Math.max(1, bytes.byteLength)] = byte;
        stranger.publish(subject, bytes, { reply: "elsewhere" });
        await new Promise<boolean>((resolve) => stranger.flush(resolve));
      },
    ),
  );
  expect(await pull([2])).toEqual({ items: [itemOf(2, 8)] });
  expect(server.figures.faults).toBeGreaterThan(0);
  expect(client.figures.faults).toBeGreaterThan(0);
  expect(faults.length).toBe(server.figures.faults);
});

test("a pull that wants its answer anywhere but at its own executor is not answered", async () => {
  const { network, messages, server, faults } = plane();
  const stranger = network.connect({ name: "stranger" });
  stranger.publish(subjects.bulk(INGRESS), joinFrame(encodePull(pullOf([1]), 1)), { reply: "tutti.v1.c.to.victim" });
  await new Promise<boolean>((resolve) => stranger.flush(resolve));
  expect(messages.map(({ subject }) => subject)).toEqual([subjects.bulk(INGRESS)]);
  expect([server.figures.faults, faults[0]]).toEqual([1, "a pull that wants its answer at tutti.v1.c.to.victim"]);
});

test("what is larger than a message comes in fragments none of which is larger", async () => {
  const { messages, pull } = plane(50_000, 4_096);
  expect(await pull([1, 2])).toEqual({ items: [itemOf(1, 50_000), itemOf(2, 50_000)] });
  expect(Math.max(...messages.map(({ bytes }) => bytes))).toBeLessThanOrEqual(4_096);
});

test("a lost fragment costs its own frame only", async () => {
  const { network, server, client, pull } = plane();
  await pull([1]);
  const stranger = network.connect({ name: "stranger" });
  const fragments = encodeFragments(encodeReply([itemOf(1, 5_000)], 9)[0]!, INGRESS, 1, 1_024);
  for (const [i, fragment] of fragments.entries()) if (i !== 2) stranger.publish(REPLY, fragment);
  for (let i = 0; i < 200; i++) {
    const begun = encodeFragments(encodeReply([itemOf(1, 5_000)], 9)[0]!, INGRESS, 10 + i, 1_024);
    stranger.publish(REPLY, begun[0]!);
  }
  await new Promise<boolean>((resolve) => stranger.flush(resolve));
  expect(client.figures.faults).toBeGreaterThan(100); // the broken frame, and those displaced by newer ones
  expect(await pull([2])).toEqual({ items: [itemOf(2, 8)] });
  expect(server.figures.faults).toBe(0);
});

test("while the bus is away pulls fail at once, and so does what was in flight", async () => {
  const { executorBus, server, client, pull } = plane();
  await pull([1]);
  server.close(() => {});
  const began = performance.now();
  expect(await pull([1])).toEqual({ failure: "unreachable" });
  const inFlight = new Promise<PullOutcome>((resolve) => client.pull(peer, pullOf([1]), 60_000, resolve));
  executorBus.disconnect();
  expect(await inFlight).toEqual({ failure: "unreachable" });
  expect(await pull([1], 60_000)).toEqual({ failure: "unreachable" });
  expect(performance.now() - began).toBeLessThan(10_000);
  expect(client.figures.dropped).toBe(1);
});

test("without a connection, what goes over a link still does, however much the server has not confirmed", async () => {
  const { executorBus, client, pull } = plane();
  await pull([1]);
  const linked: string[] = [];
  Object.assign(executorBus, {
    isNear: (subject: string) => subject === subjects.bulk(INGRESS),
    publish: (subject: string) => linked.push(subject) > 0,
    flush: () => undefined, // a server that hangs
  });
  let outcome: PullOutcome | undefined;
  client.pull(peer, pullOf([1]), 60_000, (settled) => (outcome = settled));
  executorBus.disconnect();
  const outputs = new Uint8Array(900_000);
  const results = {
    ...{ executor: EXECUTOR, gpu: 0, thread: 64, batchId: 1, batcher: 9, token: new Uint8Array(TOKEN_BYTES) },
    ...{ batchSize: 1, startedAt: instant(1), finishedAt: instant(2), run: micros(1) },
    items: [{ seq: 1, outputs, code: 0, text: "" }],
  };
  for (let i = 0; i < 200; i++) client.push(peer, results); // 180 MB
  await Promise.resolve();
  expect([linked.length, client.figures.dropped, outcome]).toEqual([201, 0, undefined]);
  client.close(() => undefined);
});

test("rows of this host come over plain TCP where there is any, and over the link where there is not", async () => {
  const { executorBus, client } = plane();
  Object.assign(executorBus, { isNear: () => true });
  const far = { pull: (_, __, ___, done) => done({ failure: "forbidden" }) } as Partial<DataClient> as DataClient;
  const both = nearFirst(client, far, { bus: executorBus, cluster: "c" });
  const pull = (address: DataPeer["address"]): Promise<PullOutcome> =>
    new Promise((resolve) => both.pull({ key: INGRESS, address }, pullOf([1]), 5_000, resolve));
  expect(await pull({ host: "a", port: 1, tls: false })).toEqual({ failure: "forbidden" });
  expect(await pull({ host: "a", port: 1, tls: true })).toEqual({ items: [itemOf(1, 8)] });
  expect(await pull(undefined)).toEqual({ items: [itemOf(1, 8)] });
});

test("a batch and its rows reach a near executor in the same form, in segments over a link or joined", () => {
  const { bus, server, client, executorBus } = plane(8, 4_096);
  const heard: unknown[] = [];
  const published: Uint8Array[] = [];
  let handle: (delivery: Delivery) => void = () => expect.unreachable();
  Object.assign(executorBus, {
    subscribe: (_: string, onDelivery: typeof handle) => ((handle = onDelivery), { stop: () => undefined }),
  });
  client.onBatch((it, batcher, items) => heard.push({ batchId: it.batchId, batcher, items }));
  const batch = { ...pullOf([1, 2]), ...WHOLE_BATCH } as unknown as BatchDispatched;
  const items = [itemOf(1, 900), itemOf(2, 5)];
  for (const hasLink of [true, false]) {
    Object.assign(bus, {
      isNear: () => true,
      publishNear: (_: string, segments: Uint8Array[]) =>
        hasLink && published.push(new Uint8Array(Buffer.concat(segments))) > 0,
      publish: (_: string, payload: Uint8Array) => published.push(payload) > 0,
    });
    expect(server.pushBatch?.(batch, actorKey(9), items)).toBe(true);
    handle({ subject: "", payload: published.at(-1)!, reply: undefined, header: () => undefined });
  }
  expect(published[0]).toEqual(published[1]);
  expect(heard).toEqual([1, 2].map(() => ({ batchId: 1, batcher: 9, items })));
  expect(server.pushBatch?.(batch, actorKey(9), [itemOf(1, 5_000)])).toBe(false);
  expect(published.length).toBe(2);
});

const WHOLE_BATCH = {
  ...{ term: 1, epoch: 1, grantSeq: 1, ranker: 3, validUntil: 9, grantedAt: 1, sentAt: 1, startAt: 1, latest: 1 },
  ...{ frontrun: 1, expectedRun: 1, ingresses: [], requests: [] },
};
