import type { ErrorCode, StatsReported } from "@tutti/protocol";

/** What an ingress counts; totals since its start, so that readers take differences and miss nothing. */
export class IngressFigures {
  readonly refused = new Map<ErrorCode, number>();
  requests = 0;
  ok = 0;
  /** Answered, but after the publisher's deadline: cannot happen while the timer of I1 works. */
  late = 0;
  /** Results that came for a request that is gone, or from someone who had not pulled it. */
  strayResults = 0;
  forbiddenPulls = 0;
  /** Requests without a reply subject, or with one that is not the application's. */
  undeliverable = 0;
  /** Sum over ok answers of the time from arrival to answer. */
  latencyUs = 0;
  batched = 0;

  refuse(code: ErrorCode): void {
    this.refused.set(code, (this.refused.get(code) ?? 0) + 1);
  }

  report(now: {
    readonly held: number;
    readonly bytes: number;
    readonly respondUs: number;
    /** Sent, and not yet known to have left; or sent again until their publisher is back. */
    readonly answersKept: number;
    readonly answersRepeated: number;
    readonly answersLost: number;
    /** Models that had their warm-up. */
    readonly warmModels: number;
  }): Pick<StatsReported, "figures"> {
    const figures: Record<string, number> = {
      requests: this.requests,
      ok: this.ok,
      late: this.late,
      strayResults: this.strayResults,
      forbiddenPulls: this.forbiddenPulls,
      undeliverable: this.undeliverable,
      latencyUs: this.latencyUs,
      ...now,
    };
    let refused = 0;
    for (const [code, count] of this.refused) {
      figures[`refused.${code}`] = count;
      refused += count;
    }
    figures["refused"] = refused;
    return { figures };
  }
}
