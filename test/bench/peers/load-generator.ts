/**
 * Open-loop load over HTTP/1.1 on raw sockets, in a process of its own: Poisson arrivals, and every latency counts from when its request was due. Requests are
 * bytes that were made before, and of an answer only its length, its status and a sample of its outputs are read, so that the generator is not the bottleneck;
 * its own lag is in the report.
 *
 * Reads one JSON line with a LoadPlan from standard input, prints one with a LoadReport.
 */
import { type Socket, connect } from "node:net";
import { text } from "node:stream/consumers";

export interface LoadPlan {
  readonly port: number;
  readonly perSecond: number;
  readonly seconds: number;
  readonly sloMs: number;
  /** Head and body of every request, in base64. */
  readonly request: string;
  /** What each answer's first outputs are; an answer that differs is wrong. */
  readonly expected: readonly number[];
  readonly seed: number;
}

export interface LoadReport {
  readonly offered: number;
  /** Right and within the SLO. */
  readonly good: number;
  readonly wrong: number;
  readonly late: number;
  readonly refused: number;
  readonly lost: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** How late requests left the generator. */
  readonly lagP50Ms: number;
  readonly lagP99Ms: number;
}

const SOCKETS_FIRST = 64;
const SOCKETS_MAX = 2_000;
/** Every so manieth answer is compared with what is expected. */
const COMPARED = 16;
const TOLERANCE = 1e-3;
/** For answers that are under way at the end. */
const AFTER_MS = 1_000;

/** One HTTP answer in a buffer: where it ends, and its status; undefined while it is incomplete. */
export function readAnswer(
  buffer: Buffer,
): { readonly status: number; readonly bodyAt: number; readonly rawAt: number; readonly end: number } | undefined {
  const headEnd = buffer.indexOf("\r\n\r\n");
  if (headEnd < 0) return undefined;
  const head = buffer.toString("latin1", 0, headEnd);
  const length = /\r\ncontent-length: *(\d+)/i.exec(head);
  const json = /\r\ninference-header-content-length: *(\d+)/i.exec(head);
  const bodyAt = headEnd + 4;
  const end = bodyAt + Number(length?.[1] ?? 0);
  if (buffer.byteLength < end) return undefined;
  return { status: Number(head.slice(9, 12)), bodyAt, rawAt: json === null ? end : bodyAt + Number(json[1]), end };
}

/** Seeded, so that each system is asked at the same instants. */
function* arrivals(perSecond: number, seed: number): Generator<number> {
  let state = seed >>> 0;
  let at = 0;
  for (;;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    at += (-Math.log(1 - state / 2 ** 32) * 1_000) / perSecond;
    yield at;
  }
}

class Load {
  readonly #plan: LoadPlan;
  readonly #request: Buffer;
  readonly #idle: Connection[] = [];
  readonly #waiting: number[] = [];
  #sockets = 0;
  #answers = 0;
  offered = 0;
  good = 0;
  wrong = 0;
  late = 0;
  refused = 0;
  readonly latencies: number[] = [];
  readonly lags: number[] = [];

  constructor(plan: LoadPlan) {
    this.#plan = plan;
    this.#request = Buffer.from(plan.request, "base64");
    for (let i = 0; i < SOCKETS_FIRST; i++) this.#idle.push(this.#open());
  }

  #open(): Connection {
    this.#sockets++;
    return new Connection(this.#plan.port, {
      onAnswer: (answer, dueMs, connection) => this.#settle(answer, dueMs, connection),
      onBroken: () => void this.#sockets--,
    });
  }

  run(): Promise<void> {
    const { perSecond, seconds, seed } = this.#plan;
    const due = arrivals(perSecond, seed);
    const startMs = performance.now() + 100;
    let nextMs = startMs + (due.next().value as number);
    return new Promise((resolve) => {
      const tick = (): void => {
        const now = performance.now();
        for (; nextMs <= now && nextMs < startMs + seconds * 1_000; nextMs = startMs + (due.next().value as number)) {
          this.offered++;
          this.lags.push(now - nextMs);
          this.#send(nextMs);
        }
        if (nextMs >= startMs + seconds * 1_000) setTimeout(resolve, AFTER_MS);
        else setTimeout(tick, Math.min(1, Math.max(0, nextMs - performance.now())));
      };
      setTimeout(tick, 100);
    });
  }

  #send(dueMs: number): void {
    const connection = this.#idle.pop() ?? (this.#sockets < SOCKETS_MAX ? this.#open() : undefined);
    if (connection === undefined) this.#waiting.push(dueMs);
    else connection.send(this.#request, dueMs);
  }

  #settle({ status, body, rawAt }: Answer, dueMs: number, connection: Connection): void {
    const latencyMs = performance.now() - dueMs;
    this.latencies.push(latencyMs);
    if (status !== 200) this.refused++;
    else if (this.#answers++ % COMPARED === 0 && !isRight(body, rawAt, this.#plan.expected)) this.wrong++;
    else if (latencyMs <= this.#plan.sloMs) this.good++;
    else this.late++;
    const waiting = this.#waiting.shift();
    if (waiting === undefined) this.#idle.push(connection);
    else connection.send(this.#request, waiting);
  }
}

interface Answer {
  readonly status: number;
  readonly body: Buffer;
  /** Within the body. */
  readonly rawAt: number;
}
interface ConnectionEvents {
  onAnswer(answer: Answer, dueMs: number, connection: Connection): void;
  onBroken(): void;
}

class Connection {
  readonly #socket: Socket;
  #dueMs = 0;
  #rest: Buffer = Buffer.alloc(0);

  constructor(port: number, { onAnswer, onBroken }: ConnectionEvents) {
    this.#socket = connect(port, "127.0.0.1").setNoDelay(true);
    this.#socket.on("error", () => undefined); // "close" follows
    this.#socket.once("close", onBroken);
    this.#socket.on("data", (chunk: Buffer) => {
      this.#rest = this.#rest.byteLength === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
      const answer = readAnswer(this.#rest);
      if (answer === undefined) return;
      const body = this.#rest.subarray(answer.bodyAt, answer.end);
      this.#rest = this.#rest.subarray(answer.end);
      onAnswer({ status: answer.status, body, rawAt: answer.rawAt - answer.bodyAt }, this.#dueMs, this);
    });
  }
  send(request: Buffer, dueMs: number): void {
    this.#dueMs = dueMs;
    this.#socket.write(request);
  }
}

/** @param rawAt - where raw outputs begin behind the JSON; at the end there are none */
function isRight(body: Buffer, rawAt: number, expected: readonly number[]): boolean {
  const given =
    rawAt < body.byteLength
      ? expected.map((_, i) => body.readFloatLE(rawAt + 4 * i))
      : (JSON.parse(body.toString()) as { outputs: { data: number[] }[] }).outputs[0]!.data;
  return expected.every((value, i) => Math.abs(value - given[i]!) <= TOLERANCE * Math.max(1, Math.abs(value)));
}

const round = (value: number): number => Math.round(value * 100) / 100;
/** NaN where there is none. */
export function quantile(values: number[], share: number): number {
  values.sort((a, b) => a - b);
  return round(values[Math.min(values.length - 1, Math.floor(share * values.length))] ?? NaN);
}

if (import.meta.main) {
  const load = new Load(JSON.parse(await text(process.stdin)) as LoadPlan);
  await load.run();
  const { offered, good, wrong, late, refused, latencies, lags } = load;
  const report: LoadReport = {
    ...{ offered, good, wrong, late, refused, lost: offered - latencies.length },
    ...{ p50Ms: quantile(latencies, 0.5), p99Ms: quantile(latencies, 0.99) },
    ...{ lagP50Ms: quantile(lags, 0.5), lagP99Ms: quantile(lags, 0.99) },
  };
  process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(0));
}
