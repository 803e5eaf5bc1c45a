/** Seeds in which the first two models are variants of one family: their requests share batches. */
import { type FamilySpec, type ModelSpec, variantInput } from "@tutti/protocol";
import { Prng, millis } from "@tutti/units";
import type { ModelPlan, Plan } from "./plan.ts";
import { hasRollout } from "./rollouts.ts";

/** Share of seeds with a family, of those that are neither calm nor struck, have two models and no rollout. */
const SHARE = 0.25;
const FAMILY = "family";

/** A generator of its own, so that the rest of a seed means what it meant. */
export function withFamily(plan: Plan): Plan {
  const prng = new Prng(plan.seed * 4_999 + 41);
  if (plan.calm || plan.struck || hasRollout(plan) || plan.models.length < 2) return plan;
  return prng.nextFloat() < SHARE ? { ...plan, hasFamily: true } : plan;
}

/** A model as executors load it. */
export interface Loaded {
  readonly model: ModelPlan;
  readonly number: number;
  /** The models that are asked for in its place. */
  readonly variants: readonly ModelPlan[];
}

export function loadedOf({ models, hasFamily = false }: Pick<Plan, "models" | "hasFamily">): Loaded[] {
  const all = models.map((model, i): Loaded => ({ model, number: i + 1, variants: [] }));
  if (!hasFamily) return all;
  const variants = models.slice(0, 2);
  const most = (of: (model: ModelPlan) => number): number => Math.max(...variants.map(of));
  const least = (of: (model: ModelPlan) => number): number => Math.min(...variants.map(of));
  const family = {
    name: FAMILY,
    alphaUs: most(({ alphaUs }) => alphaUs),
    betaUs: most(({ betaUs }) => betaUs),
    sloMs: least(({ sloMs }) => sloMs),
    batchSizeMax: least(({ batchSizeMax }) => batchSizeMax),
    ratePerSecond: 0,
  };
  return [{ model: family, number: 1, variants }, ...all.slice(2)];
}

/** The name under which executors load the model with that index. */
export const loadedNameOf = (plan: Plan, index: number): string =>
  plan.hasFamily === true && index < 2 ? FAMILY : plan.models[index]!.name;

/** The number of the model that answers requests for a name. */
export const numberOf = (plan: Plan, name: string): number =>
  loadedOf(plan).find(({ model, variants }) => [model, ...variants].some((one) => one.name === name))?.number ?? 0;

/** The name of the output that answers a model's requests; undefined for an echo model's own. */
export const outputOf = ({ models, hasFamily }: Plan, name: string): string | undefined =>
  hasFamily === true && models.slice(0, 2).some((model) => model.name === name) ? `y of ${name}` : undefined;

/** A model's spec, with its variants where it is a family. */
export function withVariants(spec: ModelSpec, { model, variants }: Loaded): ModelSpec {
  if (variants.length === 0) return spec;
  const ofFamily = variants.map(({ name, sloMs }): FamilySpec["variants"][number] => ({
    ...{ name, version: "1", slo: millis(sloMs) },
    outputs: [{ name: `y of ${name}`, type: "FP32", dims: ["batch", 1] }],
  }));
  const prefix = { alphaMs: model.alphaUs / 1_000, betaMs: model.betaUs / 1_000 };
  const pace = { prefix, suffix: { alphaMs: 0, betaMs: 0 } };
  return { ...spec, inputs: [...spec.inputs, variantInput()], outputs: [], family: { variants: ofFamily, pace } };
}
