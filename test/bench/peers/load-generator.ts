/**
 * Open-loop load over HTTP/1.1 or NATS on raw sockets, in a process of its own. Arrivals are Poisson, and every latency
 * counts from when its request was due. Requests are prepared bytes, and of an answer only its length, its status and a
 * sample of its outputs are read, so that the generator is not the bottleneck. The report includes its own lag and its
 * thread's use.
 *
 * Reads a JSON line with a LoadPlan from standard input, runs it, prints one with a LoadReport, and so on: code that V8
 * has compiled stays compiled for the next plan.
 */
import { createInterface } from "node:readline";
import { type Answer, isRight } from "./answers.ts";
import { HttpPool, type Transport, type TransportEvents } from "./http-pool.ts";
import {
  GOOD_SHARE,
  type LoadKind,
  type LoadPlan,
  type LoadReport,
  type LoadWindow,
  arrivals,
  quantile,
  rateAt,
} from "./load-plan.ts";
import { NatsLink, type NatsMessage } from "./nats-link.ts";

/** One of so many answers is compared with the expected one. */
const COMPARED = 16;
/** Time for answers that are under way at the end. */
const AFTER_MS = 1_000;
/** Number of windows into which a rising rate is divided. */
const WINDOWS = 24;
/** So many windows in a row with a smaller share of good answers mean overload. A stall of the machine is shorter. */
const OVERLOADED_WINDOWS = 4;
const OVERLOADED_SHARE = 0.8;
/**
 * Rate up to which the end of a wait is spun. A timer's millisecond would show in the latency, and at such rates
 * spinning costs next to nothing.
 */
const SPIN_PER_SECOND_MAX = 100;

interface Sent {
  readonly dueMs: number;
  readonly kind: number;
  readonly variant: number;
  readonly window: number;
  isSettled: boolean;
  isOverdue: boolean;
}

interface Counts {
  offered: number;
  good: number;
}

class Load implements TransportEvents<Sent> {
  readonly #plan: LoadPlan;
  readonly #transport: Transport<Sent>;
  readonly #sent: Sent[] = [];
  readonly #windows: Counts[] = Array.from({ length: WINDOWS }, () => ({ offered: 0, good: 0 }));
  readonly #kinds: Counts[];
  readonly #latencies: number[] = [];
  readonly #lags: number[] = [];
  /** Index in `#sent`: all earlier requests are settled or overdue. */
  #firstYoung = 0;
  #bad = 0;
  #settled = 0;
  #gaveUp = false;
  #startMs = 0;
  #chance: number;
  readonly #counts = { good: 0, wrong: 0, late: 0, refused: 0, lost: 0 };

  constructor(plan: LoadPlan) {
    this.#plan = plan;
    this.#chance = plan.seed >>> 0;
    this.#kinds = plan.kinds.map(() => ({ offered: 0, good: 0 }));
    this.#transport = this.#connect(plan);
  }

  #connect({ transport, port, kinds }: LoadPlan): Transport<Sent> {
    if (transport === "http") {
      const bytes = kinds.map(({ requests }) => requests.map((one) => Buffer.from(one, "base64")));
      return new HttpPool({ port, events: this, bytesOf: ({ kind, variant }) => bytes[kind]![variant]! });
    }
    const messages = kinds.map(({ requests, subject = "", headerBytes = 0 }) =>
      requests.map((one): NatsMessage => ({ subject, headerBytes, bytes: Buffer.from(one, "base64") })),
    );
    return new NatsLink({ port, events: this, messageOf: ({ kind, variant }) => messages[kind]![variant]! });
  }

  async run(): Promise<LoadReport> {
    const cpuBefore = process.threadCpuUsage();
    await this.#offer();
    const spentMs = performance.now() - this.#startMs;
    const { user, system } = process.threadCpuUsage(cpuBefore);
    await this.#settleRest();
    this.#transport.close();
    return this.#report((user + system) / 1e3 / spentMs);
  }

  #offer(): Promise<void> {
    const { perSecond, seconds } = this.#plan;
    const due = arrivals(this.#plan);
    const isSpun = perSecond <= SPIN_PER_SECOND_MAX && this.#plan.toPerSecond === undefined;
    this.#startMs = performance.now() + 50;
    const endMs = this.#startMs + seconds * 1_000;
    let nextMs = this.#startMs + (due.next().value as number);
    return new Promise((resolve) => {
      const tick = (): void => {
        const now = performance.now();
        for (; nextMs <= now && nextMs < endMs; nextMs = this.#startMs + (due.next().value as number)) {
          this.#lags.push(now - nextMs);
          this.#send(nextMs);
        }
        this.#ageAll(now);
        if (nextMs >= endMs || (this.#gaveUp = this.#isLost(now))) return resolve();
        const leftMs = nextMs - performance.now();
        if (isSpun && leftMs < 2) setImmediate(tick);
        else setTimeout(tick, isSpun ? leftMs - 2 : Math.min(1, Math.max(0, leftMs)));
      };
      setTimeout(tick, 50);
    });
  }

  #send(dueMs: number): void {
    const { kinds, seconds } = this.#plan;
    const kind = this.#draw(kinds.length);
    const variant = this.#draw(kinds[kind]!.requests.length);
    const window = Math.min(WINDOWS - 1, Math.floor(((dueMs - this.#startMs) / (1_000 * seconds)) * WINDOWS));
    const request: Sent = { dueMs, kind, variant, window, isSettled: false, isOverdue: false };
    this.#sent.push(request);
    this.#windows[window]!.offered++;
    this.#kinds[kind]!.offered++;
    this.#transport.send(request);
  }

  #draw(count: number): number {
    this.#chance = (Math.imul(this.#chance, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((this.#chance / 2 ** 32) * count);
  }

  /** Marks requests as bad that are unanswered past their SLO, whatever comes later. */
  #ageAll(now: number): void {
    for (; this.#firstYoung < this.#sent.length; this.#firstYoung++) {
      const request = this.#sent[this.#firstYoung]!;
      if (request.isSettled) continue;
      if (now - request.dueMs <= this.#plan.sloMs) return;
      request.isOverdue = true;
      this.#bad++;
    }
  }

  #isLost(now: number): boolean {
    const { giveUp, perSecond, seconds, sloMs } = this.#plan;
    if (giveUp === "missed") return this.#bad > (1 - GOOD_SHARE) * perSecond * seconds * 1.1 + 1;
    if (giveUp === "never") return false;
    const done = Math.floor(((now - sloMs - this.#startMs) / (1_000 * seconds)) * WINDOWS);
    return done >= OVERLOADED_WINDOWS && this.#windows.slice(done - OVERLOADED_WINDOWS, done).every(isOverloaded);
  }

  answered(request: Sent, answer: Answer): void {
    const latencyMs = performance.now() - request.dueMs;
    this.#latencies.push(latencyMs);
    const { form, expected } = this.#plan.kinds[request.kind]!;
    const isCompared = answer.isOk && this.#settled % COMPARED === 0;
    if (!answer.isOk) this.#settle(request, "refused");
    else if (isCompared && !isRight(answer, form, expected[request.variant]!)) this.#settle(request, "wrong");
    else this.#settle(request, latencyMs <= this.#plan.sloMs ? "good" : "late");
  }

  lost(request: Sent): void {
    this.#settle(request, "lost");
  }

  #settle(request: Sent, outcome: "good" | "wrong" | "late" | "refused" | "lost"): void {
    request.isSettled = true;
    this.#settled++;
    this.#counts[outcome]++;
    if (outcome === "good") {
      this.#windows[request.window]!.good++;
      this.#kinds[request.kind]!.good++;
    } else if (!request.isOverdue) this.#bad++;
  }

  /** Waits until all requests are answered, but not longer than AFTER_MS. */
  async #settleRest(): Promise<void> {
    const untilMs = performance.now() + AFTER_MS;
    while (this.#settled < this.#sent.length && performance.now() < untilMs)
      await new Promise((resolve) => setTimeout(resolve, 5));
  }

  #report(busyShare: number): LoadReport {
    const offered = this.#sent.length;
    const lost = this.#counts.lost + offered - this.#settled;
    const plan = this.#plan;
    const windows = this.#windows.map(({ offered, good }, i): LoadWindow => {
      const middleMs = ((i + 0.5) / WINDOWS) * 1_000 * plan.seconds;
      return { perSecond: Math.round(rateAt(plan, middleMs)), offered, good };
    });
    const byKind = Object.fromEntries(plan.kinds.map(({ name }: LoadKind, i) => [name, this.#kinds[i]!]));
    const lags = sorted(this.#lags);
    return {
      ...{ offered, ...this.#counts, lost, gaveUp: this.#gaveUp, windows, byKind },
      latenciesMs: sorted(this.#latencies).map((ms) => Math.round(ms * 100) / 100),
      ...{ lagP50Ms: quantile(lags, 0.5), lagP99Ms: quantile(lags, 0.99) },
      busyShare: Math.round(busyShare * 100) / 100,
    };
  }
}

const isOverloaded = ({ offered, good }: Counts): boolean => offered > 0 && good < OVERLOADED_SHARE * offered;
const sorted = (values: readonly number[]): number[] => [...values].sort((a, b) => a - b);

export const runLoad = (plan: LoadPlan): Promise<LoadReport> => new Load(plan).run();

if (import.meta.main)
  for await (const line of createInterface({ input: process.stdin }))
    process.stdout.write(`${JSON.stringify(await runLoad(JSON.parse(line) as LoadPlan))}\n`);
