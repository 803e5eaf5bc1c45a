/**
 * Measures the cost of the data plane. One executor (this process) pulls from ingresses (processes of their own) over
 * both adapters. `node test/bench/pull.ts [--rounds 2000] [--pulls 4000] [--way tcp|nats]`. Prints JSON: latencies in
 * µs, CPU in µs per pull.
 *
 * The incast: 8 sources hold 8 objects of 150 KB each, and all 64 are pulled at once, as when the inputs of a large
 * batch are at many ingresses.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { NatsDataClient, connectNats, serveNats, startNatsServer } from "@tutti/bus-nats";
import { type DataAddress, type PullRequest, TOKEN_BYTES } from "@tutti/protocol";
import type { DataClient, DataHandlers, DataPeer } from "@tutti/ports/pull";
import { TcpDataClient, serveTcp } from "@tutti/pull-tcp";
import { type ActorKey, actorKey } from "@tutti/units";

const CLUSTER = "bench";
const EXECUTOR = actorKey(2 ** 40);
const OBJECT_BYTES = 153_600;
const SOURCES = 8;
const OBJECTS = 8;

const { values: args } = parseArgs({
  options: {
    rounds: { type: "string", default: "2000" },
    pulls: { type: "string", default: "4000" },
    way: { type: "string" },
    source: { type: "string" },
    nats: { type: "string" },
  },
});

// ---- an ingress

/** An ingress whose sequence numbers encode the length of their row: seq = bytes × 2^20 + i. */
async function runSource(key: ActorKey, url: string): Promise<void> {
  const rows = new Map<number, Uint8Array>();
  const rowOf = (byteLength: number): Uint8Array => {
    const known = rows.get(byteLength) ?? new Uint8Array(byteLength).fill(1);
    rows.set(byteLength, known);
    return known;
  };
  const handlers: DataHandlers = {
    onPull: (pull, reply) =>
      reply(pull.seqs.map((seq) => ({ seq, row: rowOf(Math.floor(seq / 2 ** 20)), traceparent: "" }))),
    onResults: () => {},
  };
  const direct = serveTcp({ key, handlers });
  const nats = await connectNats({ servers: url, name: "bench-ingress" });
  serveNats({ bus: nats.bulk, cluster: CLUSTER, key, handlers });
  const address = await direct.listening;
  await new Promise<boolean>((resolve) => nats.bulk.flush(resolve));
  process.on("message", () => process.send?.({ cpu: cpuOfThis() }));
  process.on("disconnect", () => process.exit(0));
  process.send?.({ address });
}

/** CPU time so far, in µs. */
interface Cpu {
  readonly executor: number;
  readonly natsServer: number;
  readonly ingresses: number;
}
function perPiece(before: Cpu, after: Cpu, pieces: number): Cpu {
  const each = (part: keyof Cpu): number => Math.round((after[part] - before[part]) / pieces);
  return { executor: each("executor"), natsServer: each("natsServer"), ingresses: each("ingresses") };
}

function cpuOfThis(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

// ---- the executor

interface Source {
  readonly child: ChildProcess;
  readonly peer: DataPeer;
}

async function runAll(): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), "tutti-bench-"));
  const server = await startNatsServer({ dir });
  const sources: Source[] = [];
  try {
    for (let i = 0; i < SOURCES; i++) sources.push(await startSource(actorKey(1_000 + i), server.url));
    const nats = await connectNats({ servers: server.url, name: "bench-executor" });
    const cpu = async (): Promise<Cpu> => ({
      executor: cpuOfThis(),
      natsServer: cpuOf(server.pid),
      ingresses: await cpuOfSources(sources),
    });
    const ways: Record<string, DataClient> = {
      tcp: new TcpDataClient({ key: EXECUTOR }),
      nats: new NatsDataClient({ bus: nats.bulk, cluster: CLUSTER, key: EXECUTOR }),
    };
    const figures: object[] = [];
    for (const [way, client] of Object.entries(ways)) {
      if (args.way !== undefined && args.way !== way) continue;
      figures.push(...(await measure(way, client, sources, cpu)));
      await new Promise<void>((resolve) => client.close(resolve));
    }
    const machine = { node: process.version, cores: availableParallelism(), load: loadAverage() };
    process.stdout.write(`${JSON.stringify({ ...machine, figures }, undefined, 1)}\n`);
    await nats.close();
  } finally {
    for (const { child } of sources) child.kill();
    await server.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

async function startSource(key: ActorKey, url: string): Promise<Source> {
  const child = fork(import.meta.filename, ["--source", String(key), "--nats", url]);
  const [ready] = (await once(child, "message")) as [{ address: DataAddress }];
  return { child, peer: { key, address: ready.address } };
}

async function cpuOfSources(sources: readonly Source[]): Promise<number> {
  let sum = 0;
  for (const { child } of sources) {
    child.send({});
    const [{ cpu }] = (await once(child, "message")) as [{ cpu: number }];
    sum += cpu;
  }
  return sum;
}
/** User and system time of another process in µs, from ticks of 10 ms; 0 where there is no /proc. */
function cpuOf(pid: number | undefined): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ");
    return (Number(fields[11]) + Number(fields[12])) * 10_000;
  } catch {
    return 0;
  }
}
function loadAverage(): string {
  try {
    return readFileSync("/proc/loadavg", "utf8").trim();
  } catch {
    return "unknown";
  }
}

async function measure(
  way: string,
  client: DataClient,
  sources: readonly Source[],
  cpu: () => Promise<Cpu>,
): Promise<object[]> {
  const pulls = Number(args.pulls);
  const one = (bytes: number): (() => Promise<unknown>) => {
    const seqs = [bytes * 2 ** 20 + 1];
    return () => pulled(client, sources[0]!.peer, seqs);
  };
  const figures: object[] = [];
  for (const [bytes, inFlight, count] of [
    [64, 1, pulls],
    [64, 64, 10 * pulls],
    [OBJECT_BYTES, 1, pulls],
    [OBJECT_BYTES, 8, 2 * pulls],
  ] as const) {
    await repeat(one(bytes), inFlight, Math.ceil(count / 4));
    figures.push({ way, what: `pull of ${bytes} B`, inFlight, ...(await timed(one(bytes), inFlight, count, cpu)) });
  }
  const seqs = Array.from({ length: OBJECTS }, (_, i) => OBJECT_BYTES * 2 ** 20 + i + 1);
  const rounds = Number(args.rounds);
  const latencies: number[] = [];
  const whole: number[] = [];
  const incast = async (): Promise<void> => {
    const start = performance.now();
    const each = sources.map(({ peer }) =>
      pulled(client, peer, seqs).then(() => latencies.push((performance.now() - start) * 1_000)),
    );
    await Promise.all(each);
    whole.push((performance.now() - start) * 1_000);
  };
  for (let i = 0; i < rounds / 10; i++) await incast();
  latencies.length = whole.length = 0;
  const before = await cpu();
  const start = performance.now();
  for (let i = 0; i < rounds; i++) await incast();
  const seconds = (performance.now() - start) / 1_000;
  const objects = rounds * SOURCES * OBJECTS;
  const cpuUsPerObject = perPiece(before, await cpu(), objects);
  figures.push({
    way,
    what: `incast: ${OBJECTS} objects of ${OBJECT_BYTES} B from each of ${SOURCES} sources at once`,
    rounds,
    objectsPerSecond: Math.round(objects / seconds),
    gigabytesPerSecond: Number(((objects * OBJECT_BYTES) / seconds / 1e9).toFixed(2)),
    cpuUsPerObject,
    untilOneSourceAnswered: quantiles(latencies),
    untilAllAnswered: quantiles(whole),
  });
  return figures;
}

async function timed(run: () => Promise<unknown>, inFlight: number, count: number, cpu: () => Promise<Cpu>) {
  const before = await cpu();
  const start = performance.now();
  const latencies = await repeat(run, inFlight, count);
  const seconds = (performance.now() - start) / 1_000;
  const cpuUs = perPiece(before, await cpu(), count);
  return { perSecond: Math.round(count / seconds), cpuUs, ...quantiles(latencies) };
}

/** Executes `run` `count` times, `inFlight` at a time. @returns the latency of each */
async function repeat(run: () => Promise<unknown>, inFlight: number, count: number): Promise<number[]> {
  const latencies: number[] = [];
  let left = count;
  const lane = async (): Promise<void> => {
    while (left-- > 0) {
      const start = performance.now();
      await run();
      latencies.push((performance.now() - start) * 1_000);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, lane));
  return latencies;
}

function quantiles(samples: readonly number[]): Record<string, number> {
  const sorted = Float64Array.from(samples).sort();
  const at = (q: number): number => Math.round(sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))]!);
  return {
    samples: sorted.length,
    p50: at(0.5),
    p90: at(0.9),
    p99: at(0.99),
    p999: at(0.999),
    p9999: at(0.9999),
    max: at(1),
  };
}

function pulled(client: DataClient, peer: DataPeer, seqs: readonly number[]): Promise<void> {
  const pull: PullRequest = {
    executor: EXECUTOR,
    gpu: 0,
    thread: 64,
    batchId: 1,
    batcher: 9,
    token: new Uint8Array(TOKEN_BYTES),
    seqs,
  };
  return new Promise((resolve, reject) =>
    client.pull(peer, pull, 60_000, (outcome) =>
      "items" in outcome ? resolve() : reject(new Error(`a pull failed: ${outcome.failure}`)),
    ),
  );
}

if (args.source !== undefined) await runSource(actorKey(Number(args.source)), args.nats!);
else await runAll();
