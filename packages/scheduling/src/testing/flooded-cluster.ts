/**
 * Several applications on one model in virtual time, with the requests that each sent, their outcomes and their times.
 */
import { LatencyTable } from "@tutti/profile";
import { type ActorKey, type Instant, type Micros, Prng, type RequestSeq, millis, threadId } from "@tutti/units";
import type { ShareRules } from "../admission/deal-shares.ts";
import { Cluster } from "../lockstep/cluster.ts";
import type { RefusalCause, Request } from "../messages.ts";
import type { Policy } from "../policy.ts";

export interface Sender {
  readonly app: number;
  readonly priority?: number;
  /** Requests a second at a moment (seconds from the start). */
  readonly rate: (at: number) => number;
  readonly slo?: Micros;
}

export interface Sent {
  readonly sender: number;
  readonly at: number;
  outcome: "served" | RefusalCause;
  /** Time of the outcome. */
  endedAt: number;
}

export interface FloodOptions {
  readonly senders: readonly Sender[];
  readonly seconds: number;
  readonly gpus?: number;
  readonly rules?: ShareRules;
  readonly policy?: Policy;
  readonly seed?: number;
  readonly ctrl?: Micros;
  /**
   * Pauses of the whole path to the thread, by start and length in seconds. They imitate a machine that is short of
   * processors.
   */
  readonly pauses?: readonly Pause[];
}

export interface Pause {
  readonly at: number;
  readonly for: number;
}

const SLO = millis(25);

/**
 * l(b) = 1.053·b + 5.072 ms on `gpus` accelerators with an SLO of 25 ms: eight of them carry 5,400 r/s, one about 450.
 */
export class Flood {
  readonly sent: Sent[] = [];
  readonly seconds: number;
  readonly #unended = new Map<Request, Sent>();

  constructor(options: FloodOptions) {
    const { senders, seconds, pauses = [] } = options;
    this.seconds = seconds;
    const cluster = this.#cluster(options);
    const prng = new Prng(options.seed ?? 1);
    const next = senders.map(() => 0);
    const draw = (i: number): void => {
      // Thinning: candidates at the highest rate, of which each moment keeps its part.
      const most = Math.max(1, ...[0, 0.25, 0.5, 0.75, 0.99].map((part) => senders[i]!.rate(part * seconds)));
      do next[i]! += prng.nextExponential(most);
      while (next[i]! < seconds && prng.nextFloat() * most >= senders[i]!.rate(next[i]!));
    };
    for (let i = 0; i < senders.length; i++) draw(i);
    let pause = 0;
    for (let seq = 1; ; seq++) {
      const i = next.indexOf(Math.min(...next));
      const at = next[i]!;
      if (at >= seconds) break;
      const request = requestOf(senders[i]!, seq, at);
      const sent: Sent = { sender: i, at, outcome: "served", endedAt: 0 };
      this.#unended.set(request, sent);
      this.sent.push(sent);
      while (pause < pauses.length && at >= pauses[pause]!.at + pauses[pause]!.for) pause++;
      const isHeld = pause < pauses.length && at >= pauses[pause]!.at;
      cluster.arrive(0, request, isHeld ? instantOf(pauses[pause]!.at + pauses[pause]!.for) : request.arrivedAt);
      draw(i);
    }
    cluster.runUntilIdle();
  }

  #cluster({ gpus = 2, rules, policy = { kind: "adaptive" }, ctrl = 0 as Micros }: FloodOptions): Cluster {
    return new Cluster({
      gpus,
      models: [
        {
          ...{ thread: threadId(1, 0), term: 1, epoch: 1, slo: SLO, policy, patience: 1, gather: "target", ctrl },
          profile: LatencyTable.affine({ alpha: 1_053, beta: 5_072, batchSizeMax: 64 }),
          ...{ guard: 0 as Micros, perItem: 0 as Micros, respond: 0 as Micros },
          ...{ queueMax: 65_536, batchesInFlightMax: 4_096 },
          ...(rules !== undefined && { shares: rules }),
        },
      ],
      listener: {
        refused: (request, cause, at) => this.#end(request, cause, at),
        finished: ({ requests }, _, at) => {
          for (const request of requests) this.#end(request, at > request.deadline ? "overloaded" : "served", at);
        },
      },
    });
  }

  #end(request: Request, outcome: Sent["outcome"], at: number): void {
    const sent = this.#unended.get(request)!;
    this.#unended.delete(request);
    sent.outcome = outcome;
    sent.endedAt = at;
  }

  /** Requests a second of one sender that were served, of those sent in [from, to). */
  served(sender: number, from: number, to = this.seconds): number {
    const count = this.sent.filter((one) => one.sender === sender && one.outcome === "served" && in_(one, from, to));
    return count.length / (to - from);
  }
  offered(sender: number, from: number, to = this.seconds): number {
    return this.sent.filter((one) => one.sender === sender && in_(one, from, to)).length / (to - from);
  }
  total(from: number, to = this.seconds): number {
    return this.sent.filter((one) => one.outcome === "served" && in_(one, from, to)).length / (to - from);
  }
}

const instantOf = (at: number): Instant => Math.round(at * 1e6) as Instant;
const in_ = ({ at }: Sent, from: number, to: number): boolean => at >= from && at < to;

function requestOf({ app, priority = 0, slo = SLO }: Sender, seq: number, at: number): Request {
  const arrivedAt = instantOf(at);
  const deadline = (arrivedAt + slo) as Instant;
  return { ingress: 1 as ActorKey, seq: seq as RequestSeq, arrivedAt, deadline, slo, app, priority, size: 0 };
}
