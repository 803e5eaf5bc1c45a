/**
 * A request whose costs have several steps (docs/algorithms.md, B8), once it has missed one: it now aims at a later
 * step, whose deadline it has in place of its own.
 *
 *   LATER-1. Its identity and its arrival are those of the request that it stands for, and so is what leaves the
 *            ModelThread when it is refused.
 */
import type { CostStep } from "@tutti/dynamic";
import type { ActorKey, Instant, Micros, RequestSeq } from "@tutti/units";
import type { Request } from "../messages.ts";

export class LaterRequest implements Request {
  /** The request as it came. */
  readonly origin: Request;
  readonly deadline: Instant;
  /** The steps from that one on, with what each costs beyond what is lost already. */
  readonly steps: readonly CostStep[];
  readonly #step: number;

  private constructor(origin: Request, step: number) {
    this.origin = origin;
    this.#step = step;
    const lost = origin.steps![step - 1]!.cost;
    this.steps = origin.steps!.slice(step).map(({ deadline, cost }) => ({ deadline, cost: cost - lost }));
    this.deadline = this.steps[0]!.deadline;
  }

  /** The request with its next step that is worth meeting; undefined: it has none. */
  static of(request: Request): LaterRequest | undefined {
    const [origin, from] = request instanceof LaterRequest ? [request.origin, request.#step] : [request, 0];
    const { steps } = origin;
    if (steps === undefined) return undefined;
    // A step at which the cost stays as it is changes nothing by being missed.
    for (let i = from + 1; i < steps.length; i++)
      if (steps[i]!.cost > steps[i - 1]!.cost) return new LaterRequest(origin, i);
    return undefined;
  }

  get ingress(): ActorKey {
    return this.origin.ingress;
  }
  get seq(): RequestSeq {
    return this.origin.seq;
  }
  get arrivedAt(): Instant {
    return this.origin.arrivedAt;
  }
  get slo(): Micros {
    return (this.origin.slo + this.deadline - this.origin.deadline) as Micros;
  }
  get app(): number {
    return this.origin.app;
  }
  get priority(): number {
    return this.origin.priority ?? 0;
  }
  get isOwn(): boolean {
    return this.origin.isOwn ?? false;
  }
  get size(): number {
    return this.origin.size;
  }
  get units(): number {
    return this.origin.units ?? 0;
  }
}

/** The request as it came. */
export const asItCame = (request: Request): Request => (request instanceof LaterRequest ? request.origin : request);
