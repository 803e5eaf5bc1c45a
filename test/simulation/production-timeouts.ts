/** Seeds with production's time-outs: faults last longer in them, so that there too peers are taken for dead. */
import { IDLE_HEARTBEAT_EVERY } from "@tutti/host/role-defaults";
import { FAST_TIMEOUTS, PRODUCTION_TIMEOUTS } from "../fixtures/actor-cluster/timeouts.ts";
import type { Action, Plan } from "./plan.ts";
import { PLANNED_PAUSE_MAX } from "./planners.ts";

/** One seed in so many. */
const EVERY = 4;
const STRETCH = PRODUCTION_TIMEOUTS.actor.peerTimeout / FAST_TIMEOUTS.actor.peerTimeout;
/** Share of the requests per second, since they arrive for so much longer: a seed's cost is mostly theirs. */
const RATE = 0.3;

/** Whether faults last so long that actors give up a belief after a second or more, and begin anew. */
export const hasLongFaults = ({ timeouts, calm, struck, planned }: LongFaults): boolean =>
  planned !== undefined || (timeouts === PRODUCTION_TIMEOUTS && !calm && !struck);
type LongFaults = Pick<Plan, "timeouts" | "calm" | "struck" | "planned">;

/** Draws nothing, so that all else in a seed means what it means with fast time-outs. */
export function withProductionTimeouts(plan: Plan): Plan {
  if (plan.seed % EVERY !== 0) return plan;
  const timed = { ...plan, timeouts: PRODUCTION_TIMEOUTS };
  // Killed and leaving processes are noticed without a time-out.
  if (plan.calm) return timed;
  if (plan.struck) return struckLater(timed);
  const { placings, durationUs, models, actions, planned } = plan;
  // It lasts for seconds as it is.
  if (planned !== undefined)
    return {
      ...timed,
      actions: actions.map(({ atUs, action }) => ({ atUs, action: stretched(action, PLANNED_PAUSE_MAX) })),
    };
  return {
    ...timed,
    ...(placings !== undefined && { placings: { ...placings, brief: undefined } }),
    durationUs: durationUs * STRETCH,
    models: models.map((model) => ({ ...model, ratePerSecond: model.ratePerSecond * RATE })),
    actions: actions.map(({ atUs, action }) => ({ atUs: atUs * STRETCH, action: stretched(action) })),
  };
}

/**
 * The second death comes later: a successor of the first hears idle peers within a second. Before that it can't tell a
 * peer's death from a peer that it doesn't hear yet (PeerProbes, strangers).
 */
function struckLater(plan: Plan): Plan {
  const actions = plan.actions.map(({ atUs, action }, i) => ({ atUs: atUs + i * IDLE_HEARTBEAT_EVERY, action }));
  return { ...plan, durationUs: plan.durationUs + IDLE_HEARTBEAT_EVERY, actions };
}

/** The time after which a killed or leaving process is back stays: no time-out decides about it. */
const stretched = (action: Action, mostUs = Infinity): Action =>
  "forUs" in action ? { ...action, forUs: Math.min(action.forUs * STRETCH, mostUs) } : action;
