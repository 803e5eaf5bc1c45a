/** Runs one trial after the other: load for one contestant, while the others are idle. */
import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { type Interface, createInterface } from "node:readline";
import type { Contestant } from "./contestants.ts";
import type { Outcome } from "./goodput-search.ts";
import {
  GOOD_SHARE,
  RATE_MAX,
  type LoadPlan,
  type LoadReport,
  type LoadWindow,
  quantile,
  wasBottleneck,
} from "./load-plan.ts";
import { answersWithin } from "./probe.ts";
import type { SystemName } from "./workloads.ts";

export interface Trial {
  readonly report: LoadReport;
  readonly cpuUs: number;
  readonly cpuByProcess: Readonly<Record<string, number>>;
}

type Offer = Pick<LoadPlan, "perSecond" | "seconds"> & Partial<Pick<LoadPlan, "toPerSecond" | "giveUp" | "seed">>;

/** The wide ramp, which finds a first estimate; `FINE` measures more closely around an estimate. */
const WIDE = { perSecond: 50, toPerSecond: RATE_MAX };
const FINE = { from: 0.4, to: 1.6 };
/** Length of a ramp, in lengths of a trial. */
const RISE = 0.5;
/** Least share of good requests in a window of the ramp that counts as carried. */
const CARRIED_SHARE = 0.98;
/** Number of windows before it, and how many of them must be carried too: a single one may be lucky. */
const BEFORE = { windows: 3, carried: 2 };
/** Lag of the generator, as a share of the SLO, that shows that the machine stood still. */
const STALLED_SHARE = 0.5;
/** Time for the rest of an overload to drain. */
const SETTLE_MS_MAX = 20_000;

export class Trials {
  readonly #generator: ChildProcess;
  readonly #reports: AsyncIterator<string>;
  readonly #lines: Interface;
  readonly #sloMs: number;
  readonly #say: (text: string) => void;
  /** Number of trials in which the generator was the bottleneck, by contestant. */
  readonly bottlenecks = new Map<SystemName, number>();

  constructor({ sloMs, say }: { readonly sloMs: number; readonly say: (text: string) => void }) {
    this.#sloMs = sloMs;
    this.#say = say;
    const script = join(import.meta.dirname, "load-generator.ts");
    this.#generator = spawn(process.execPath, [script], { stdio: ["pipe", "pipe", "inherit"] });
    this.#lines = createInterface({ input: this.#generator.stdout! });
    this.#reports = this.#lines[Symbol.asyncIterator]();
  }

  close(): void {
    this.#generator.kill("SIGKILL");
  }

  async offer(one: Contestant, { perSecond, seconds, toPerSecond, giveUp = "never", seed = 7 }: Offer): Promise<Trial> {
    const plan: LoadPlan = {
      ...{ transport: one.transport, port: one.port, kinds: one.kinds, sloMs: this.#sloMs, seed, giveUp },
      ...{ perSecond, seconds, ...(toPerSecond === undefined ? {} : { toPerSecond }) },
    };
    const before = one.processes.usage();
    this.#generator.stdin!.write(`${JSON.stringify(plan)}\n`);
    const { value, done } = await this.#reports.next();
    if (done === true) throw new Error("the load generator has ended");
    const report = JSON.parse(value) as LoadReport;
    const after = one.processes.usage();
    if (wasBottleneck(report, this.#sloMs)) this.bottlenecks.set(one.name, (this.bottlenecks.get(one.name) ?? 0) + 1);
    this.#tell(one, plan, report);
    if (report.gaveUp || goodShare(report) < GOOD_SHARE) await this.#settle(one);
    const cpuByProcess = Object.fromEntries(
      Object.entries(after.byProcess).map(([name, us]) => [name, us - (before.byProcess[name] ?? 0)]),
    );
    return { report, cpuUs: after.cpuUs - before.cpuUs, cpuByProcess };
  }

  /** A rate that rises until the contestant is overloaded. @returns about how much it carries, per second */
  async ramp(one: Contestant, seconds: number): Promise<number> {
    return this.#carried(one, { ...WIDE, seconds: RISE * seconds });
  }

  /** @param around - the result of a ramp @returns the same, more exactly */
  async fineRamp(one: Contestant, around: number, seconds: number): Promise<number> {
    const [perSecond, toPerSecond] = [
      Math.ceil(FINE.from * around) + 10,
      Math.min(RATE_MAX, Math.ceil(FINE.to * around) + 20),
    ];
    return this.#carried(one, { perSecond, toPerSecond, seconds: RISE * seconds });
  }

  /** Runs a ramp, and repeats it where the machine stood still meanwhile. */
  async #carried(one: Contestant, rise: Omit<Offer, "giveUp">): Promise<number> {
    const { report } = await this.offer(one, { ...rise, giveUp: "overloaded" });
    const first = carriedOf(report.windows);
    if (!this.#wasDisturbed(report)) return first;
    const again = await this.offer(one, { ...rise, giveUp: "overloaded" });
    return Math.max(first, carriedOf(again.report.windows));
  }

  /** Whether 99 % are good at a rate. */
  async hold(one: Contestant, perSecond: number, seconds: number): Promise<Outcome> {
    const { report } = await this.offer(one, { perSecond, seconds, giveUp: "missed" });
    if (!report.gaveUp && goodShare(report) >= GOOD_SHARE) return "held";
    return this.#wasDisturbed(report) ? "disturbed" : "failed";
  }

  /** Whether the machine stood still, by the generator's own lag. */
  #wasDisturbed({ lagP99Ms }: LoadReport): boolean {
    return lagP99Ms >= STALLED_SHARE * this.#sloMs;
  }

  /** Waits until the contestant's queue is empty, so that the next trial starts without one. */
  async #settle(one: Contestant): Promise<void> {
    const within = { withinMs: this.#sloMs, times: 3, msMax: SETTLE_MS_MAX };
    if (!(await answersWithin(one, one.kinds, within))) this.#say(`${one.name} has not come to rest yet`);
  }

  #tell({ name }: Contestant, { perSecond, toPerSecond, kinds }: LoadPlan, report: LoadReport): void {
    const rate = toPerSecond === undefined ? `${perSecond}/s` : `${perSecond} to ${toPerSecond}/s`;
    const lag = `generator ${report.lagP99Ms} ms late (p99), ${Math.round(100 * report.busyShare)} % of a core`;
    const outcome =
      toPerSecond === undefined
        ? `${(100 * goodShare(report)).toFixed(2)} % good${report.gaveUp ? " until given up" : ""}, p99 ${quantile(report.latenciesMs, 0.99)} ms`
        : `carries about ${carriedOf(report.windows)}/s`;
    const bad = (["wrong", "refused", "lost"] as const).filter((kind) => report[kind] > 0);
    const why = bad.map((kind) => `, ${report[kind]} ${kind}`).join("");
    const own = wasBottleneck(report, this.#sloMs) ? " - the generator was the bottleneck" : "";
    this.#say(`${name}: ${kinds.map((kind) => kind.name).join("+")} at ${rate}: ${outcome}${why}; ${lag}${own}`);
  }
}

export const goodShare = ({ good, offered }: Pick<LoadReport, "good" | "offered">): number =>
  offered === 0 ? 0 : good / offered;

/** The highest rate of a ramp at which requests were still answered in time. A stall before it doesn't count. */
export function carriedOf(windows: readonly LoadWindow[]): number {
  const isCarried = windows.map(({ offered, good }) => offered > 0 && good >= CARRIED_SHARE * offered);
  const at = isCarried.findLastIndex((isThis, i) => {
    const before = isCarried.slice(Math.max(0, i - BEFORE.windows), i);
    return isThis && before.filter(Boolean).length >= Math.min(before.length, BEFORE.carried);
  });
  const [last, beyond] = [windows[at], windows[at + 1]];
  if (last === undefined) return 0;
  // The capacity lies between this window and the next: the larger the next one's good share, the nearer to it.
  const factor = beyond === undefined ? 1 : (beyond.perSecond / last.perSecond) ** goodShare(beyond);
  return Math.round(last.perSecond * factor);
}
