/**
 * Seeds with a pipeline of two stages, perhaps with a branch beside the second one. Every row has the number of its
 * publisher's request, so that an answer with another's row is seen.
 */
import type { ServedPipelines } from "@tutti/ingress";
import { parsePipeline } from "@tutti/pipelines";
import type { Clock } from "@tutti/ports/clock";
import { type StepInput, type Steps, type Tensors, inlineSteps } from "@tutti/ports/steps";
import { Prng, after, micros } from "@tutti/units";
import { LATER_SEEDS } from "./later-seeds.ts";
import type { Plan } from "./plan.ts";

export interface Pipelined {
  /** Names of the models of its stages. */
  readonly models: readonly [string, string];
  readonly hasBranch: boolean;
  readonly split: "planned" | "even";
  readonly sloMs: number;
  readonly ratePerSecond: number;
  /** Time that each function takes. */
  readonly stepUs: number;
  /** Whether some functions fail. */
  readonly fails: boolean;
  /** Most requests to it that an ingress has under way. */
  readonly instancesMax: number;
  /** Share of its requests that their publisher takes back. */
  readonly cancelled: number;
}

/** Share of the later seeds, of those that are not struck. */
const SHARE = 0.3;
export const PIPELINE = "duo";
/** One request in so many has a function that fails. */
const FAILS_EVERY = 23;

/** A generator of its own, so that the rest of a seed means what it means without a pipeline. */
export function withPipeline(plan: Plan): Plan {
  const prng = new Prng(plan.seed * 6_007 + 47);
  if (plan.seed < LATER_SEEDS || plan.struck || prng.nextFloat() >= SHARE) return plan;
  const { models, calm, planned } = plan;
  const chance = (share: number): boolean => prng.nextFloat() < share;
  // A stage names a model, and never a version of one.
  const named = models.filter(({ name }) => !name.includes("/"));
  const [first, second] = [named[0]!, named[prng.nextInt(named.length)]!];
  const stagesMs = (first.sloMs + second.sloMs) * (1 + 0.5 * prng.nextFloat());
  const pipelined: Pipelined = {
    models: [first.name, second.name],
    hasBranch: chance(0.4),
    split: chance(0.3) ? "even" : "planned",
    sloMs: Math.ceil(stagesMs),
    ratePerSecond: calm ? 20 : (20 + 100 * prng.nextFloat()) * (planned === undefined ? 1 : 0.1),
    stepUs: chance(0.5) ? prng.nextInt(3_000) : 0,
    fails: !calm && chance(0.5),
    instancesMax: !calm && chance(0.3) ? 2 + prng.nextInt(10) : 1_000,
    cancelled: !calm && chance(0.4) ? 0.2 : 0,
  };
  return { ...plan, pipelined };
}

/** Models that a request for a target needs. */
export const modelsOf = ({ pipelined }: Pick<Plan, "pipelined">, target: string): readonly string[] =>
  target === PIPELINE && pipelined !== undefined ? pipelined.models : [target];

/** Timers that an ingress has for requests to the pipeline: one for each, and one for a function that takes a while. */
export const timersOf = ({ pipelined }: Pick<Plan, "pipelined">): number => 2 * (pipelined?.instancesMax ?? 0);

/** The pipeline as an ingress serves it, whose functions take their time by its clock. */
export function servedPipeline({ pipelined }: Plan, clock: Clock): ServedPipelines | undefined {
  if (pipelined === undefined) return undefined;
  const { models, hasBranch, split, sloMs, stepUs, fails, instancesMax } = pipelined;
  const branch = { name: "branch", model: models[0], after: ["find"], before: "./duo.ts#toBranch" };
  const stages = [
    { name: "find", model: models[0], before: "./duo.ts#toFirst" },
    { name: "read", model: models[1], after: ["find"], before: "./duo.ts#toSecond" },
    ...(hasBranch ? [branch] : []),
  ];
  const declared = { name: PIPELINE, slo: `${sloMs}ms`, split, stages, finish: "./duo.ts#toAnswer" };
  const checked = (id: number, place: number): number => {
    if (fails && id % FAILS_EVERY === place) throw new Error(`${id} fails`);
    return id;
  };
  const steps = inlineSteps({
    "./duo.ts#toFirst": ({ input }: StepInput) => ({
      requests: scalar(checked(idOf(input), 1)),
      keep: { id: idOf(input) },
    }),
    // As many as the last two bits say, none included.
    "./duo.ts#toSecond": ({ stages: { find } }: StepInput) => {
      const id = checked(idOf(find?.[0]), 2);
      return Array.from({ length: id % 4 }, () => scalar(id));
    },
    "./duo.ts#toBranch": ({ stages: { find } }: StepInput) => scalar(idOf(find?.[0])),
    "./duo.ts#toAnswer": ({ stages: results, kept }: StepInput) => {
      const { id } = kept["find"] as { readonly id: number };
      const all = Object.values(results).flat();
      const whole = 1 + (checked(id, 3) % 4) + (hasBranch ? 1 : 0);
      const isOwn = all.length === whole && all.every((one) => idOf(one) === id);
      return scalar(isOwn ? id : NaN, "y");
    },
  });
  return { specs: [parsePipeline(declared, `${PIPELINE}.yaml`)], steps: slowly(steps, clock, stepUs), instancesMax };
}

/** The number of the request whose row it is; an output of a family's variant has a name of its own. */
const idOf = (tensors: Tensors | undefined): number => Number(Object.values(tensors ?? {})[0]?.data[0]);

const scalar = (value: number, name = "x"): Tensors => ({
  [name]: { type: "FP32", dims: [1, 1], data: Float32Array.of(value) },
});

/** Functions that take a while, as in a worker. */
function slowly(steps: Steps, clock: Clock, stepUs: number): Steps {
  if (stepUs === 0) return steps;
  return {
    run(call, done) {
      let isWanted = true;
      const abandon = steps.run(call, (outcome) => {
        clock.alarm(() => isWanted && done(outcome)).set(after(clock.now(), micros(stepUs)));
      });
      return () => {
        isWanted = false;
        abandon();
      };
    },
  };
}
