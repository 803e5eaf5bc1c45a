import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Delivery } from "@tutti/ports/bus";
import { HEADER, inferSubject } from "@tutti/protocol";
import { afterEach, beforeEach, expect, test } from "vitest";
import { TRACE_FORMAT, type TraceHeader, readTraceFile } from "../scenarios/trace-file.ts";
import { Recorder } from "./recorder.ts";
import { TraceWriter } from "./trace-writer.ts";

const HEADER_LINE: TraceHeader = {
  format: TRACE_FORMAT,
  version: 1,
  startedAt: "2026-01-01T00:00:00.000Z",
  cluster: "main",
  payloads: false,
};

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-record-"));
  path = join(folder, "trace.jsonl");
});
afterEach(() => rm(folder, { recursive: true }));

function delivery(model: string, app: string, headers: Record<string, string> = {}): Delivery {
  const payload = new TextEncoder().encode("abc");
  return { subject: inferSubject(model, app), payload, reply: "_INBOX.x", header: (name) => headers[name] };
}

async function recorderOf({ payloads = false, waitingBytesMax = 1e6 } = {}) {
  const writer = await TraceWriter.create(path, HEADER_LINE, { waitingBytesMax });
  const clock = { ms: 5_000 };
  const recorder = new Recorder({ writer, models: [], payloads, nowMs: () => clock.ms, wallMs: () => clock.ms + 1e12 });
  return { writer, recorder, clock };
}

test("what is recorded is read again: times from the first request, SLOs from either header", async () => {
  const { writer, recorder, clock } = await recorderOf();
  recorder.hear(delivery("a", "x"));
  clock.ms += 1.5;
  recorder.hear(delivery("b", "y", { [HEADER.slo]: "25ms" }));
  clock.ms += 1;
  recorder.hear(delivery("b", "y", { [HEADER.deadline]: String(clock.ms + 1e12 + 40) }));
  recorder.hear(delivery("b", "y", { [HEADER.slo]: "soon" }));
  await writer.close(recorder.t);
  expect(await readTraceFile(path)).toEqual({
    header: HEADER_LINE,
    entries: [
      { at: 0, model: "a", app: "x", slo: undefined },
      { at: 1500, model: "b", app: "y", slo: 25_000 },
      { at: 2500, model: "b", app: "y", slo: 40_000 },
      { at: 2500, model: "b", app: "y", slo: undefined },
    ],
    missed: 0,
    away: 0,
  });
  expect((await stat(path)).mode & 0o777).toBe(0o600);
});

test("inputs are kept only when asked for, and requests that an ingress makes up itself never", async () => {
  const { writer, recorder } = await recorderOf({ payloads: true });
  recorder.hear(delivery("a", "warm-up"));
  recorder.hear(delivery("a", "x", { [HEADER.contentType]: "application/json" }));
  await writer.close(recorder.t);
  const [, ...lines] = (await readFile(path, "utf8")).trim().split("\n");
  expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
    { t: 0, model: "a", app: "x", bytes: 3, contentType: "application/json", payload: "YWJj" },
  ]);
});

test("a file that can't keep up costs no memory: what it could not take is counted, and written down as a gap", async () => {
  const { writer, recorder, clock } = await recorderOf({ waitingBytesMax: 300_000 });
  const atOnce = 20_000; // more than fits, in one turn, in which no file can write
  for (let i = 0; i < atOnce; i++) recorder.hear(delivery("a", "x"));
  expect(writer.missed).toBeGreaterThan(0);
  expect(writer.bytes).toBeLessThan(400_000);
  const { missed } = writer;
  await until(() => {
    clock.ms++;
    recorder.hear(delivery("a", "late"));
    return writer.count + writer.missed > atOnce && writer.missed - missed < writer.count + writer.missed - atOnce;
  });
  await writer.close(recorder.t);
  const trace = await readTraceFile(path);
  expect(trace.missed).toBe(writer.missed);
  expect(trace.entries).toHaveLength(writer.count);
  expect(trace.entries.at(-1)?.app).toBe("late");
});

test("a time without a connection is written down", async () => {
  const { writer, recorder, clock } = await recorderOf();
  let tell: (kind: "disconnected" | "reconnected") => void = () => undefined;
  const bus = {
    subscribe: () => ({ stop: () => undefined }),
    onStatus: (listener: (status: { kind: string }) => void) => {
      tell = (kind) => listener({ kind });
      return { stop: () => undefined };
    },
  };
  const listening = recorder.listen(bus as unknown as Parameters<Recorder["listen"]>[0]);
  recorder.hear(delivery("a", "x"));
  tell("disconnected");
  clock.ms += 2;
  tell("reconnected");
  tell("disconnected");
  clock.ms += 3;
  listening.stop();
  await writer.close(recorder.t);
  expect((await readTraceFile(path)).away).toBe(5_000);
  expect(recorder.awayUs).toBe(5_000);
});

test("a file that is there is not overwritten, and one that can't be made is named", async () => {
  const writer = await TraceWriter.create(path, HEADER_LINE);
  await writer.close(0);
  await expect(TraceWriter.create(path, HEADER_LINE)).rejects.toThrow(/is there already/);
  await expect(TraceWriter.create(join(folder, "no/such.jsonl"), HEADER_LINE)).rejects.toThrow(/no such folder/);
});

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve));
}
