import { ALWAYS, type Instant, type Micros } from "@tutti/units";
import type { FairShares } from "../admission/fair-shares.ts";
import { LaterRequest } from "../batches/later-request.ts";
import type { ModelEffects, RefusalCause, Request } from "../messages.ts";

/**
 * Counts A2's refusals as losses. Each is a sign of overload, unless the request could not have been served when it
 * came. A request that has a later step (B8) is counted too, since its SLO is missed, but kept for that step.
 */
export class CountedRefusals implements Pick<ModelEffects, "refuse"> {
  readonly #shares: FairShares;
  /** @returns whether there is room for a request that aims at a later step */
  readonly #keep: (request: LaterRequest) => boolean;
  #to: Pick<ModelEffects, "refuse"> | undefined;
  #at: Instant = ALWAYS;
  /** The newest request; A2 refuses it at once if it can't be met any more. */
  #newest: Request | undefined = undefined;
  #newestAt: Instant = ALWAYS;
  /** True if the newest request is infeasible: it could not have been met at any arrival time. */
  #isHopeless = false;

  constructor(shares: FairShares, keep: (request: LaterRequest) => boolean) {
    this.#shares = shares;
    this.#keep = keep;
  }
  towards(to: Pick<ModelEffects, "refuse">, at: Instant): this {
    this.#to = to;
    this.#at = at;
    return this;
  }
  came(request: Request, at: Instant, isHopeless: boolean): void {
    this.#newest = request;
    this.#newestAt = at;
    this.#isHopeless = isHopeless;
  }
  /** Whether the request came at this very moment. */
  hasJustCome(request: Request, at: Instant): boolean {
    return request === this.#newest && at === this.#newestAt;
  }
  refuse(request: Request, cause: RefusalCause, feasible: Micros): void {
    if (request instanceof LaterRequest) return this.#refuseLater(request, cause, feasible);
    if (request !== this.#newest || !this.#isHopeless)
      this.#shares.dropped(this.#at, request, this.hasJustCome(request, this.#at));
    if (request.steps !== undefined) return this.#refuseLater(request, cause, feasible);
    this.#to!.refuse(request, cause, feasible);
  }

  #refuseLater(request: Request, cause: RefusalCause, feasible: Micros): void {
    const later = LaterRequest.of(request);
    if (later !== undefined && this.#keep(later)) return;
    this.#to!.refuse(request instanceof LaterRequest ? request.origin : request, cause, feasible);
  }
}
