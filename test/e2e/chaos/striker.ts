import type { TuttiUp } from "../tutti-up.ts";
import { type StruckNats, nodeNames } from "./cluster.ts";
import type { Layout, Strike, StruckRole } from "./record.ts";
import { type PlannedStrike, strikesOf } from "./strike-plan.ts";
import type { Tap } from "./tap.ts";

/** Time for a process to come back. A slower one is reported, and the run goes on: the figures show the cost. */
const BACK_MS = 15_000;

export interface StrikerOptions {
  readonly up: TuttiUp;
  /** Present where the layout has servers that are struck. */
  readonly nats?: StruckNats | undefined;
  readonly tap: Tap;
  readonly seed: number;
  readonly layout: Layout;
  /** Least time from one's return to the next strike. Default: as the plan says. */
  readonly everyMs?: number;
  readonly onStrike?: (strike: Strike) => void;
}

/**
 * Strikes processes one after the other. The next strike comes when the last process is back, since any ONE actor may
 * die at any moment (docs/architecture.md, T1).
 */
export class Striker {
  readonly strikes: Strike[] = [];
  readonly #options: StrikerOptions;
  readonly #plan: Generator<PlannedStrike>;

  constructor(options: StrikerOptions) {
    this.#options = options;
    this.#plan = strikesOf(options.seed, options.layout);
  }

  /** Strikes until so many were struck, or until `untilMs`, whichever comes first. */
  async run(limit: { readonly count: number; readonly untilMs: number }): Promise<void> {
    for (const planned of this.#plan) {
      if (this.strikes.length >= limit.count) return;
      const { everyMs = 0 } = this.#options;
      const leftMs = Math.max(0, limit.untilMs - performance.now());
      await pass(Math.min(Math.max(planned.afterMs, everyMs), leftMs));
      if (performance.now() >= limit.untilMs) return;
      await this.#strike(planned);
    }
  }

  async #strike({ target, signal, forMs }: PlannedStrike): Promise<void> {
    if (target.startsWith("nats-")) return this.#strikeNats(target, signal, forMs);
    const { up, tap, layout, onStrike } = this.#options;
    const leader = tap.leader();
    const name = target === "leader" ? this.#processOf(leader) : target;
    const role = name.replace(/-\d+$/, "") as StruckRole;
    const pid = up.pidOf(name);
    const after = up.events.length;
    const strike: Strike = {
      atMs: performance.now(),
      name,
      role,
      leading: pid === leader,
      alone: role === "node" && layout.nodes === 1,
      actor: tap.actorOf(pid),
      signal,
      backMs: undefined,
    };
    process.kill(pid, signal);
    this.strikes.push(strike);
    onStrike?.(strike);
    if (signal === "SIGSTOP") {
      await pass(forMs);
      wake(pid);
    } else {
      const back = up.next("child-ready", (event) => event["name"] === name, after);
      if ((await Promise.race([back, pass(BACK_MS)])) === undefined) return;
    }
    strike.backMs = performance.now();
  }

  /**
   * Strikes a NATS server. One that ends is started again at once: only its connections and its streams' leadership are
   * lost.
   */
  async #strikeNats(name: string, signal: Strike["signal"], forMs: number): Promise<void> {
    const { nats, onStrike } = this.#options;
    const server = nats?.servers[Number(name.slice("nats-".length))];
    if (nats === undefined || server?.pid === undefined) return;
    const strike: Strike = {
      ...{ atMs: performance.now(), name, role: "nats", leading: false, alone: false, actor: undefined },
      ...{ signal, backMs: undefined },
    };
    this.strikes.push(strike);
    onStrike?.(strike);
    if (signal === "SIGSTOP") {
      process.kill(server.pid, signal);
      await pass(forMs);
      wake(server.pid);
    } else {
      await (signal === "SIGKILL" ? server.kill() : server.stop());
      await server.restart();
    }
    strike.backMs = performance.now();
    await nats.whole();
  }

  /** The name of the leader's process. Between two leaders there is none, and any process will do. */
  #processOf(leader: number | undefined): string {
    const { kind, nodes } = this.#options.layout;
    const names = kind === "node" ? nodeNames(nodes) : ["ranker-0", "ranker-1", "ranker-2"];
    return names.find((name) => this.#options.up.pidOf(name) === leader) ?? names[0]!;
  }
}

function wake(pid: number): void {
  try {
    process.kill(pid, "SIGCONT");
  } catch {
    // It was taken for hung and ended: the process is gone.
  }
}

/** Waits between strikes. */
const pass = (ms: number): Promise<undefined> =>
  new Promise((resolve) => void setTimeout(() => resolve(undefined), ms));
