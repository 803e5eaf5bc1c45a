import { ALWAYS, type Instant, type Micros } from "@tutti/units";
import type { FairShares } from "./admission/fair-shares.ts";
import type { LastingLoss } from "./lasting-loss.ts";
import type { ModelEffects, RefusalCause, Request } from "./messages.ts";

/** On the way of A2's refusals: each is a sign of overload, unless the request could not have been served when it came. */
export class CountedRefusals implements Pick<ModelEffects, "refuse"> {
  readonly #shares: FairShares;
  readonly #loss: LastingLoss;
  #to: Pick<ModelEffects, "refuse"> | undefined;
  #at: Instant = ALWAYS;
  /** The request that has just come, if it came too late: A2 refuses it at once. */
  hopeless: Request | undefined = undefined;

  constructor(shares: FairShares, loss: LastingLoss) {
    this.#shares = shares;
    this.#loss = loss;
  }
  towards(to: Pick<ModelEffects, "refuse">, at: Instant): this {
    this.#to = to;
    this.#at = at;
    return this;
  }
  refuse(request: Request, cause: RefusalCause, feasible: Micros): void {
    if (request !== this.hopeless) {
      this.#shares.dropped(this.#at, request);
      this.#loss.lost();
    }
    this.#to!.refuse(request, cause, feasible);
  }
}
