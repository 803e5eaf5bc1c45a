import { COST_STEPS_MAX, type RequestArrived, type RequestCosts } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";

/**
 * Ingresses whose costs are kept, the newest. Each has one message at most, until its arrival is read right behind it.
 */
const INGRESSES_MAX = 1_024;

type Steps = RequestCosts["steps"];

/** Costs that came with a request, in the message before its arrival. */
export class ArrivalCosts {
  readonly #next = new Map<ActorKey, RequestCosts>();

  note(costs: RequestCosts, sender: ActorKey): void {
    if (!isRising(costs.steps)) return;
    this.#next.delete(sender);
    if (this.#next.size >= INGRESSES_MAX) this.#next.delete(this.#next.keys().next().value!);
    this.#next.set(sender, costs);
  }

  /** The steps of this arrival; undefined: it has none. */
  take({ thread, seq, deadline }: RequestArrived, sender: ActorKey): Steps | undefined {
    if (this.#next.size === 0) return undefined;
    const costs = this.#next.get(sender);
    this.#next.delete(sender);
    const isIts = costs?.thread === thread && costs.seq === seq && costs.steps[0]!.deadline === deadline;
    return isIts ? costs.steps : undefined;
  }
}

/** Whether an ingress may have sent these steps (T8). */
function isRising(steps: Steps): boolean {
  if (steps.length === 0 || steps.length > COST_STEPS_MAX || steps.at(-1)!.cost === 0) return false;
  return steps.every(({ deadline, cost }, i) => {
    const before = steps[i - 1];
    return before === undefined || (deadline > before.deadline && cost >= before.cost);
  });
}
