/**
 * A real model that nobody asks for leaves the executors' memory, and its next request brings it back: by messages, by
 * HTTP and by command.
 */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type NatsConnection, connectNats, readCredentials } from "@tutti/bus-nats";
import { type Tutti, connect } from "@tutti/client";
import { generateMlp } from "@tutti/onnx-tools";
import { ExecutorInventory, subjectsOf } from "@tutti/protocol";
import { FrameReader } from "@tutti/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TuttiUp } from "./tutti-up.ts";

const WIDTHS = [1_024, 1_024, 1_024, 16];
const ROW = Array.from({ length: WIDTHS[0]! }, (_, i) => (i % 7) / 7);
/** A layer of 1,024 by 1,024 numbers; a model has two. */
const WEIGHT_BYTES = 4 * 1_024 * 1_024;
const SLO_MS = 500;
const COLD_START_MS = 30_000;
let folder: string;
let up: TuttiUp;
let client: Tutti;
let tap: NatsConnection;
/** The newest inventory of each executor. */
const inventories = new Map<number, ExecutorInventory>();
const waiting = new Set<() => void>();

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-zero-"));
  for (const [name, more] of [
    ["idle", ", scale_to_zero: { idle: 5s, cold_start: 30s }"],
    ["kept", ""],
  ] as const) {
    await mkdir(join(folder, name, "1"), { recursive: true });
    await writeFile(join(folder, name, "1/model.onnx"), generateMlp({ widths: WIDTHS, seed: name.length }));
    await writeFile(join(folder, name, "config.yaml"), `{ slo: ${SLO_MS}ms, max_batch_size: 8${more} }`);
  }
  up = await TuttiUp.start(["--no-demo", "--models", folder, "--executors", "2"]);
  client = await connect({ servers: up.url, app: "e2e" });
  const credentials = readCredentials(join(up.runDirectory, new URL(up.url).port, "creds/planner.nk"));
  tap = await connectNats({ servers: up.url, name: "tap", credentials });
  const reader = new FrameReader().on(ExecutorInventory, (inventory) => {
    inventories.set(inventory.executor, inventory);
    for (const look of [...waiting]) look();
  });
  tap.control.subscribe(subjectsOf("main").role("planner"), ({ payload }) => void reader.read(payload));
});
afterAll(async () => {
  await client?.close();
  await tap?.close();
  await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

/** Resolves when every executor has so many models loaded. */
function loaded(models: number): Promise<void> {
  return new Promise((resolve) => {
    const look = (): void => {
      const all = [...inventories.values()];
      if (all.length < 2 || all.some((one) => one.models.length !== models)) return;
      waiting.delete(look);
      resolve();
    };
    waiting.add(look);
    look();
  });
}
async function stateOf(name: string): Promise<{ readonly state: string; readonly parkedSince?: string }> {
  const { stdout } = await up.command("models", "--json");
  const listed = JSON.parse(stdout) as { name: string; state: string; parkedSince?: string }[];
  return listed.find((one) => one.name === name)!;
}
/** Memory of each model by its number, over both executors. */
function memory(): ReadonlyMap<number, number> {
  const sums = new Map<number, number>();
  for (const { models } of inventories.values())
    for (const { number, memoryBytes } of models) sums.set(number, (sums.get(number) ?? 0) + memoryBytes);
  return sums;
}
const ask = (model: string, coldStart?: string): Promise<unknown> =>
  client.infer(model, { x: [ROW] }, { slo: SLO_MS, ...(coldStart !== undefined && { coldStart }) });

test("a model that is not asked for is unloaded, and its next request is answered: by a client that knows the cold start", async () => {
  await ask("idle", `${COLD_START_MS}ms`); // it may be parked already, where others took long to start
  await loaded(2);
  const before = memory();
  await loaded(1);
  const after = memory();
  expect([before.size, after.size]).toEqual([2, 1]);
  for (const [number, bytes] of after) expect(bytes).toBe(before.get(number));
  expect(Math.min(...before.values())).toBeGreaterThan(WEIGHT_BYTES);
  const { state, parkedSince } = await stateOf("idle");
  expect(state).toBe("parked");
  expect(Date.now() - Date.parse(parkedSince!)).toBeLessThan(60_000);
  expect((await stateOf("kept")).state).toBe("ready");
  const startedAt = performance.now();
  await ask("idle", `${COLD_START_MS}ms`);
  const tookMs = performance.now() - startedAt;
  console.log(`a cold start took ${tookMs.toFixed(0)} ms`);
  expect(tookMs).toBeLessThan(COLD_START_MS + SLO_MS);
  await loaded(2);
  expect(await stateOf("idle")).not.toHaveProperty("parkedSince");
  // It is warm: a deadline is met as before.
  await ask("idle");
});

test("a parked model is woken over HTTP, and by command, without a word of cold starts", async () => {
  const gateway = up.events.find((event) => event.event === "child-ready" && event["http"] !== undefined);
  for (const wake of ["http", "command"] as const) {
    await loaded(1);
    if (wake === "command") {
      const { code, stderr } = await up.command("infer", "idle", "--slo", `${SLO_MS}ms`);
      expect([code, stderr]).toEqual([0, ""]);
    } else {
      const inputs = [{ name: "x", shape: [1, ROW.length], datatype: "FP32", data: ROW }];
      const url = `${String(gateway?.["http"])}/v2/models/idle/infer`;
      const answer = await fetch(url, { method: "POST", body: JSON.stringify({ inputs }) });
      expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining("outputs")]);
    }
    await loaded(2);
  }
});
