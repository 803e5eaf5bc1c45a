import { Socket } from "node:net";
import { TOKEN_BYTES } from "@tutti/protocol";
import { actorKey, instant, micros } from "@tutti/units";
import { encodeHello, encodeResults, joinFrame } from "@tutti/wire";
import { expect, test } from "vitest";
import { ExecutorConnection } from "./executor-connection.ts";
import { proofOf } from "./hello-proof.ts";
import { ReceiveBudget } from "./receive-budget.ts";

const [KEY, EXECUTOR, SECRET] = [actorKey(1_001), actorKey(2_002), "secret"];
const GROWTH_BYTES = 65_536;
const FRAME_SWEEPS = 10;

/** A connection that has said hello, on a socket that leads nowhere. */
function admitted() {
  const told = { results: 0, faults: [] as string[] };
  const socket = new Socket();
  const connection = new ExecutorConnection(
    {
      ...{ key: KEY, secret: SECRET, budget: new ReceiveBudget(8_000_000), pendingBytesMax: 1_000_000 },
      handlers: { onPull: () => undefined, onResults: () => told.results++ },
      figures: { pulls: 0, forbiddenPulls: 0, results: 0 },
      fault: (text) => told.faults.push(text),
      admit: () => undefined,
    },
    socket,
  );
  socket.emit("data", joinFrame(encodeHello(EXECUTOR, KEY, proofOf(SECRET, "hello", EXECUTOR, KEY))));
  return { ...{ told, connection }, receive: (bytes: Uint8Array) => socket.emit("data", bytes) };
}
function bigResults(): Uint8Array {
  const claim = { executor: EXECUTOR, gpu: 0, thread: 64, batchId: 1, batcher: 9, token: new Uint8Array(TOKEN_BYTES) };
  const times = { startedAt: instant(1), finishedAt: instant(2), run: micros(1) };
  const items = [{ seq: 1, outputs: new Uint8Array(3_000_000), code: 0, text: "" }];
  return joinFrame(encodeResults({ ...claim, ...times, batchSize: 1, items })[0]!);
}

test("a frame that grows by 64 KB a sweep may take many sweeps", () => {
  const { told, connection, receive } = admitted();
  const frame = bigResults();
  for (let at = 0; at < frame.byteLength; at += GROWTH_BYTES) {
    receive(frame.subarray(at, at + GROWTH_BYTES));
    connection.sweep();
  }
  expect(told).toEqual({ results: 1, faults: [] });
});

test("one that stands still goes on where it grows again in time, and a trickle is cut off", () => {
  const { told, connection, receive } = admitted();
  const frame = bigResults();
  let at = 0;
  const grow = (bytes: number): void => {
    receive(frame.subarray(at, (at += bytes)));
    connection.sweep();
  };
  grow(GROWTH_BYTES);
  for (let i = 1; i < FRAME_SWEEPS; i++) grow(0);
  grow(GROWTH_BYTES);
  for (let i = 1; i < FRAME_SWEEPS; i++) grow(GROWTH_BYTES - 1);
  expect(told.faults).toEqual([]);
  grow(GROWTH_BYTES - 1);
  expect(told.faults).toEqual([expect.stringMatching(/a frame that it has begun is not whole in time/)]);
});
