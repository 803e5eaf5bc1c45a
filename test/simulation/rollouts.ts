/** Seeds with two versions of a model, and how its requests are shared between them while faults last. */
import { Prng } from "@tutti/units";
import type { Plan } from "./plan.ts";

/** Share of seeds with two versions, of those that are neither calm nor struck and have two models. */
const SHARE = 0.4;
/**
 * Name of the second model, which is a version of the first. It is asked for by its name, and also gets a share of the
 * first one's requests.
 */
const SECOND = "model-0/2";

/** A generator of its own, so that seeds without rollouts mean what they meant. */
export function withRollout(plan: Plan): Plan {
  const prng = new Prng(plan.seed * 2_003 + 5);
  const [first, second, ...rest] = plan.models;
  if (plan.calm || plan.struck || second === undefined || prng.nextFloat() >= SHARE) return plan;
  const shares = Array.from({ length: 1 + prng.nextInt(6) }, () => ({
    atUs: prng.nextInt(plan.durationUs),
    action: { kind: "share", percent: [0, 10, 50, 100][prng.nextInt(4)]!, isShadow: prng.nextFloat() < 0.3 } as const,
  }));
  const models = [first!, { ...second, name: SECOND }, ...rest];
  return { ...plan, models, actions: [...plan.actions, ...shares] };
}

/** Models that may answer a request for a name. */
export const versionsOf = (plan: Pick<Plan, "models">, name: string): readonly string[] =>
  hasRollout(plan) && name === plan.models[0]!.name ? [name, SECOND] : [name];

export const hasRollout = ({ models }: Pick<Plan, "models">): boolean => models.some(({ name }) => name === SECOND);
