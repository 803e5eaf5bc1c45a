/**
 * The NATS server hangs while requests come over HTTP and gRPC. Gateway, ingress, batcher and ranker share a process,
 * and the executor, or a second node, is at the other end of a link: none of them needs the server, whether its
 * connection stands or was given up.
 */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { GrpcConnection, STATUS, inferMessage } from "../attack/clients/grpc.ts";
import { askOverHttp } from "./chaos/http-asker.ts";
import { TuttiUp, commandOf } from "./tutti-up.ts";

const SLO_MS = 1_000;
const PER_SECOND = 100;
/** A client gives its connection up after 6 to 9 s without an answer, and each attempt at the next after 5 s. */
const FROZEN_MS = 15_000;

interface Node {
  readonly name: string;
  readonly http: string;
  readonly grpc: GrpcConnection;
}
let folder: string;
let up: TuttiUp;
let nodes: Node[] = [];

async function start(count: number): Promise<void> {
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-frozen-"));
  const profiles = join(folder, "profiles.yaml");
  await writeFile(profiles, `models: [{ name: quick, sloMs: ${SLO_MS}, batchMax: 8, alphaMs: 0.5, betaMs: 2 }]\n`);
  up = await TuttiUp.start(["--emulate", profiles, "--gpus", "2", "--nodes", String(count)]);
  const ready = up.events.filter(({ event, http }) => event === "child-ready" && http !== undefined);
  expect(ready).toHaveLength(count);
  const opened = ready.map(async ({ name, http, grpc }) => ({
    ...{ name: String(name), http: String(http), grpc: await GrpcConnection.open(String(grpc)) },
  }));
  nodes = await Promise.all(opened);
}
afterEach(async () => {
  for (const { grpc } of nodes) grpc.close();
  await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

const MESSAGE = inferMessage({ model: "quick", input: { name: "x", shape: [1, 1] }, row: Float32Array.of(1) });
async function askOverGrpc({ grpc }: Node): Promise<string> {
  const { status, text } = await grpc.ask("ModelInfer", MESSAGE, { "tutti-app": "e2e" });
  return status === STATUS.ok ? "ok" : `${status}: ${text}`;
}

function askHttp({ name, http }: Node): Promise<string> {
  const question = { model: "quick", app: "e2e", sloUs: 1_000 * SLO_MS, row: [1] };
  return new Promise((resolve) =>
    askOverHttp([{ name, url: http }], question, {
      onAsked: () => undefined,
      onBroken: (_, code) => resolve(`broken: ${code}`),
      onAnswer: resolve,
    }),
  );
}

function askNext(i: number): Promise<string> {
  const node = nodes[(i >> 1) % nodes.length]!;
  return i % 2 === 0 ? askHttp(node) : askOverGrpc(node);
}

/** Asks all nodes in turn for so long, whatever the answers. @returns how often each status came */
function load(ms: number): Promise<Record<string, number>> {
  const asked: Promise<string>[] = [];
  return new Promise((resolve) => {
    const startMs = performance.now();
    const timer = setInterval(() => {
      const passedMs = Math.min(ms, performance.now() - startMs);
      while (asked.length < (passedMs * PER_SECOND) / 1_000) asked.push(askNext(asked.length));
      if (passedMs < ms) return;
      clearInterval(timer);
      resolve(Promise.all(asked).then(countsOf));
    }, 5);
  });
}
function countsOf(statuses: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const status of statuses) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}
function okShare({ ok = 0, ...others }: Record<string, number>): number {
  return ok / Object.values(others).reduce((sum, count) => sum + count, ok);
}

interface Line {
  readonly level: string;
  readonly time: string;
  readonly msg: string;
}
async function linesOf(name: string): Promise<Line[]> {
  const text = await readFile(join(up.runDirectory, new URL(up.url).port, "logs", `${name}.log`), "utf8");
  return text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Line]));
}

/** Every answer about readiness that came in that time, over HTTP and gRPC. */
async function readiness(ms: number): Promise<Set<string>> {
  const said = new Set<string>();
  const endMs = performance.now() + ms;
  while (performance.now() < endMs) {
    for (const { http, grpc } of nodes) {
      const response = await fetch(`${http}/v2/health/ready`);
      said.add(`${response.status} ${(await response.text()).trim()}`);
      const { content } = await grpc.ask("ServerReady", new Uint8Array(0));
      said.add(content.toString("hex"));
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  return said;
}

test.each([1, 2])(
  "%i linked nodes answer over HTTP and gRPC while NATS hangs, say that they are ready, and name the cause first",
  async (count) => {
    await start(count);
    const before = await load(3_000);
    const pid = up.processes().find((one) => commandOf(one).includes("nats-server"))!;
    const struckAt = new Date();
    process.kill(pid, "SIGSTOP");
    const frozen = Promise.all([load(FROZEN_MS), readiness(FROZEN_MS)]);
    const [during, ready] = await frozen.finally(() => process.kill(pid, "SIGCONT"));
    for (const { name } of nodes)
      await up.next("child-line", (line) => line["name"] === name && String(line["text"]).startsWith("NATS is back"));
    const after = await load(3_000);
    process.stdout.write(`${JSON.stringify({ count, before, during, after, ready: [...ready] })}\n`);
    // A busy machine refuses some requests at any time.
    expect(okShare(during)).toBeGreaterThanOrEqual(0.999 * okShare(before));
    expect(okShare(after)).toBeGreaterThanOrEqual(0.99 * okShare(before));
    // ServerReadyResponse { ready: true }, and the same over HTTP.
    expect([...ready].sort()).toEqual(["00000000020801", '200 {"ready":true,"missing":[]}']);
    for (const name of [...nodes.map((node) => node.name), "executor-0"]) {
      const warned = (await linesOf(name)).filter(({ level, time }) => level !== "info" && new Date(time) >= struckAt);
      expect(warned[0]?.msg).toMatch(/^NATS can't be reached: it has answered nothing for \d/);
      expect(warned.filter(({ msg }) => msg.includes("slow consumer"))).toEqual([]);
    }
    const lines = (await Promise.all(nodes.map(({ name }) => linesOf(name)))).flat();
    expect(lines.filter(({ msg }) => msg === "leads" || msg.includes("deposed"))).toHaveLength(1);
  },
  90_000,
);
