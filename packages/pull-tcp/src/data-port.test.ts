/** The data port from outside: raw sockets, with and without what an executor knows. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { type Socket, connect } from "node:net";
import { type DataAddress, type PullRequest, type ResultBatch, TOKEN_BYTES } from "@tutti/protocol";
import type { PullOutcome } from "@tutti/ports/pull";
import { actorKey, instant, micros } from "@tutti/units";
import { encodeHello, encodeResults, joinFrame } from "@tutti/wire";
import { afterEach, expect, test, vi } from "vitest";
import { proofOf } from "./hello-proof.ts";
import { TcpDataClient, type TcpDataServer, type TcpServerOptions, serveTcp } from "./index.ts";

const INGRESS = actorKey(1_001);
const EXECUTOR = actorKey(2_002);
const STRANGERS_MAX = 128;
const NEW_STRANGERS_MAX = 1_024;
const SWEEP_MS = 1_000;
const closing: (() => unknown)[] = [];
afterEach(async () => {
  vi.useRealTimers();
  await Promise.all(closing.splice(0).map((close) => close()));
});

interface Served {
  readonly server: TcpDataServer;
  readonly address: DataAddress;
  readonly faults: string[];
  readonly results: ResultBatch[];
}
async function serving(over: Partial<TcpServerOptions> = {}): Promise<Served> {
  const [faults, results]: [string[], ResultBatch[]] = [[], []];
  const server = serveTcp({
    key: INGRESS,
    handlers: {
      onPull: (pull, reply) =>
        reply(pull.seqs.map((seq) => ({ seq, row: new Uint8Array(8).fill(seq), traceparent: "" }))),
      onResults: (batch) => results.push({ ...batch, items: [] }),
    },
    onFault: (text) => faults.push(text),
    ...over,
  });
  closing.push(() => new Promise<void>((resolve) => server.close(resolve)));
  return { server, address: await server.listening, faults, results };
}

async function raw({ port, host }: DataAddress): Promise<Socket> {
  const socket = connect(port, host);
  socket.on("error", () => undefined);
  socket.resume();
  closing.push(() => socket.destroy());
  await once(socket, "connect");
  return socket;
}
const closed = (socket: Socket): Promise<void> =>
  socket.closed ? Promise.resolve() : new Promise((resolve) => socket.once("close", () => resolve()));
const helloTo = ({ secret = "" }: DataAddress, executor = EXECUTOR): Uint8Array =>
  joinFrame(encodeHello(executor, INGRESS, proofOf(secret, "hello", executor, INGRESS)));
/** Results of `byteLength` bytes. */
function resultsOf(byteLength: number, executor = EXECUTOR): Uint8Array {
  const claim = { executor, gpu: 0, thread: 64, batchId: 1, batcher: 9, token: new Uint8Array(TOKEN_BYTES) };
  const times = { startedAt: instant(1), finishedAt: instant(2), run: micros(1) };
  const items = [{ seq: 1, outputs: new Uint8Array(byteLength), code: 0, text: "" }];
  return joinFrame(encodeResults({ ...claim, ...times, batchSize: 1, items })[0]!);
}
function pulled(address: DataAddress): Promise<PullOutcome> {
  const client = new TcpDataClient({ key: EXECUTOR });
  closing.push(() => new Promise<void>((resolve) => client.close(resolve)));
  const claim = { executor: EXECUTOR, gpu: 0, thread: 64, batchId: 1, batcher: 9, token: new Uint8Array(TOKEN_BYTES) };
  const pull = { ...claim, seqs: [3] } as PullRequest;
  return new Promise((resolve) => client.pull({ key: INGRESS, address }, pull, 10_000, resolve));
}

test("who has no credentials takes no memory by what it announces or sends, and the log says why it was cut off", async () => {
  const child = fork(new URL("./testing/attacked-port.ts", import.meta.url), [String(INGRESS)], { execArgv: [] });
  closing.push(() => child.kill());
  const [{ address }] = (await once(child, "message")) as [{ address: DataAddress }];
  const huge = resultsOf(33_000_000);
  const strange = { ...address, secret: "guessed" };
  const [guessed, bare, late] = [helloTo(strange), new Uint8Array(0), helloTo(address).subarray(0, 47)];
  const attack = async (hello: Uint8Array): Promise<void> => {
    const socket = await raw(address);
    const end = closed(socket);
    socket.write(hello);
    for (let at = 0; at < huge.byteLength && !socket.destroyed; at += 65_536) {
      const written = new Promise((resolve) => socket.write(huge.subarray(at, at + 65_536), resolve));
      await Promise.race([written, end]);
    }
    await end;
  };
  const kinds = [guessed, bare, late];
  for (const kind of kinds) await attack(kind);
  await Promise.all(Array.from({ length: 21 }, (_, i) => attack(kinds[i % 3]!)));
  child.send({});
  const [told] = (await once(child, "message")) as [{ grownBytes: number; faults: string[]; count: number }];
  expect(told.grownBytes).toBeLessThan(33_554_432); // as much as one of the 24 frames
  expect(told.count).toBe(24);
  const noSecret = /is cut off: hello without this ingress' secret/;
  const reasons = [noSecret, /is cut off: it announces 33\d+ bytes before it is admitted, 64 are the most/, noSecret];
  reasons.forEach((reason, i) => expect(told.faults[i]).toMatch(reason));
});

test("sockets that say nothing are bounded in number and in time, and an executor gets in beside them", async () => {
  const { server, address, faults } = await serving({ sweepMs: 50 });
  const silent = await Promise.all(Array.from({ length: STRANGERS_MAX + 72 }, () => raw(address)));
  const dripping = await raw(address);
  const drip = setInterval(() => dripping.write(helloTo(address).subarray(0, 1)), 20);
  closing.push(() => clearInterval(drip));
  expect(await pulled(address)).toHaveProperty("items");
  await Promise.all([...silent, dripping].map(closed));
  expect(server.figures.faults).toBe(silent.length + 1);
  expect(faults[0]).toMatch(/has not said hello, and newer connections need its place|no hello in time/);
  expect(await pulled(address)).toHaveProperty("items");
});

test("a flood doesn't displace a peer that no sweep has seen, and beyond a bound the newest is refused", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  const { server, address, faults } = await serving();
  const accepted = (count: number): Promise<void> => expect.poll(() => server.figures.connections).toBe(count);
  const early = await raw(address);
  for (let count = 1; count < NEW_STRANGERS_MAX; count++) await raw(address);
  await accepted(NEW_STRANGERS_MAX);
  expect(faults).toEqual([]);
  await closed(await raw(address));
  expect(faults).toEqual([expect.stringMatching(/is cut off: 1024 connections have not said hello/)]);
  early.write(helloTo(address));
  await once(early, "data"); // the welcome
  vi.advanceTimersByTime(SWEEP_MS);
  const next = await raw(address);
  await accepted(NEW_STRANGERS_MAX + 2);
  expect(server.figures.faults).toBe(1 + NEW_STRANGERS_MAX - STRANGERS_MAX);
  expect(faults[1]).toMatch(/it has not said hello, and newer connections need its place/);
  next.write(helloTo(address, actorKey(77)));
  await once(next, "data");
});

test("a peer that announces a frame and doesn't send it gives the memory back in time", async () => {
  const { address, faults, results } = await serving({ receivingBytesMax: 8_000_000, sweepMs: 50 });
  const slow = await raw(address);
  const welcome = once(slow, "data");
  slow.write(Buffer.concat([helloTo(address), resultsOf(5_000_000).subarray(0, 1_000)]));
  await welcome;
  const beyond = await raw(address);
  beyond.write(Buffer.concat([helloTo(address), resultsOf(5_000_000).subarray(0, 1_000)]));
  await closed(beyond);
  await closed(slow);
  expect(faults[0]).toMatch(/no memory is left for a frame of 50\d+ bytes/);
  expect(faults[1]).toMatch(/a frame that it has begun is not whole in time/);
  const next = await raw(address);
  next.write(Buffer.concat([helloTo(address), resultsOf(5_000_000)]));
  await expect.poll(() => results.length).toBe(1);
});

test("after a standstill of the ingress' process a peer isn't late with what it has begun", async () => {
  const { server, address, results } = await serving({ sweepMs: 20 });
  const socket = await raw(address);
  const frame = resultsOf(1_000_000);
  socket.write(Buffer.concat([helloTo(address), frame.subarray(0, 500_000)]));
  await once(socket, "data"); // the welcome
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000);
  socket.write(frame.subarray(500_000));
  await expect.poll(() => results.length).toBe(1);
  expect(server.figures.faults).toBe(0);
});

test("a fifth connection of one executor ends its oldest, and all of them have as many as allowed", async () => {
  const { address, faults } = await serving({ connectionsMax: 6 });
  const open = async (executor: number): Promise<Socket> => {
    const socket = await raw(address);
    socket.write(helloTo(address, actorKey(executor)));
    return socket;
  };
  const admitted = async (executor: number): Promise<Socket> => {
    const socket = await open(executor);
    await once(socket, "data");
    return socket;
  };
  const own: Socket[] = [];
  for (let i = 0; i < 4; i++) own.push(await admitted(EXECUTOR));
  expect(faults).toEqual([]);
  own.push(await admitted(EXECUTOR));
  await closed(own[0]!);
  expect(faults).toEqual([expect.stringMatching(/newer connections of this executor need its place/)]);
  const others = await Promise.all([admitted(77), admitted(78)]);
  await closed(await open(79));
  expect(faults.at(-1)).toMatch(/executors have 6 connections, which is the most/);
  others.push(await admitted(77)); // where all have as many as allowed, it still takes the place of its own
  await closed(others[0]);
  expect([...own.slice(1), ...others.slice(1)].map((socket) => socket.closed)).toEqual(Array(6).fill(false));
});

test("of many peers that are cut off at once a few are told, and the others are counted", async () => {
  const { server, address, faults } = await serving({ sweepMs: 500 });
  const sockets = await Promise.all(Array.from({ length: 40 }, () => raw(address)));
  for (const socket of sockets) socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  await Promise.all(sockets.map(closed));
  await expect.poll(() => faults.at(-1)).toMatch(/^\d+ more peers were cut off$/);
  const untold = faults.map((text) => Number(/^(\d+) more/.exec(text)?.[1] ?? -1));
  expect(untold.reduce((sum, count) => sum + (count < 0 ? 1 : count), 0)).toBe(40);
  expect(faults.length).toBeLessThan(20);
  expect(server.figures.faults).toBe(40);
});
