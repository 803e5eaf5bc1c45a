import { formatDuration, micros } from "@tutti/units";
import type { ModelSpec, ModelStatus } from "./model-spec.ts";
import { type Static, schema } from "../schema.ts";
import { stored } from "./stored.ts";

/**
 * One end of an executor because of a model, or while it ran or loaded one.
 *
 * `hung`: its run or load passed its deadline. `crashed`: the process ended by itself (a native abort, a lost device).
 * `killed`: it was ended from outside, perhaps for lack of memory, or the cause is unknown.
 */
const Strike = schema.record({
  /** The incarnation that ended; each counts once. */
  executor: schema.actor,
  host: schema.text(),
  gpu: schema.gpu,
  doing: schema.oneOf(["run", "load"]),
  how: schema.oneOf(["hung", "crashed", "killed"]),
  /** Start of the run or load. */
  startedAt: schema.moment,
  /** Time at which the strike was recorded. */
  at: schema.moment,
});
export type Strike = Static<typeof Strike>;

/**
 * Executors that a model has ended since it last served. It is the value of `faultKeys.model(number)` in the bucket of
 * profiles, changed by compare-and-set.
 */
export const isModelFaults = stored(
  "faults of a model",
  1,
  schema.record({
    name: schema.text(),
    number: schema.model,
    strikes: schema.list(Strike),
    /** Reason why no executor loads or runs the model any more; "" as long as it is served. */
    quarantined: schema.text(),
  }),
);
export type ModelFaults = Static<typeof isModelFaults>;

/** Executors in a row that a model may end before it is quarantined. */
export const STRIKES_MAX = 3;

export const faultKeys = {
  prefix: "fault.",
  model: (modelNumber: number): string => `fault.${modelNumber}`,
} as const;

/**
 * Adds a strike to a model's faults.
 *
 * @param atOnce - why the model is quarantined by this strike alone; undefined: after STRIKES_MAX
 * @returns undefined when the strike changes nothing: it is known, or may have been the same event as the last one. A
 *   host that loses its power ends all of its executors at once, which is no model's fault. So a killed executor counts
 *   only if its run began after the last strike was known.
 */
export function withStrike(
  { name, number }: Pick<ModelSpec, "name" | "number">,
  faults: ModelFaults | undefined,
  strike: Strike,
  atOnce?: string,
): ModelFaults | undefined {
  const before = faults?.strikes ?? [];
  const last = before.at(-1);
  if (faults !== undefined && faults.quarantined !== "") return undefined;
  if (before.some(({ executor }) => executor === strike.executor)) return undefined;
  if (last !== undefined && strike.how === "killed" && strike.startedAt <= last.at) return undefined;
  const strikes = [...before, strike];
  const quarantined = atOnce ?? (strikes.length < STRIKES_MAX ? "" : reasonOf(name, strikes));
  return { name, number, strikes, quarantined };
}

function reasonOf(name: string, strikes: readonly Strike[]): string {
  const first = strikes[0]!;
  const last = strikes.at(-1)!;
  const within = formatDuration(micros(Math.max(0, last.at - first.at)));
  const told = strikes.map(strikeText);
  return (
    `it ended its executor ${strikes.length} times in a row within ${within} (${told.join("; ")}): ` +
    `repair it and load it again, or try it as it is with "tutti models --release ${name}"`
  );
}
export const strikeText = ({ how, doing, gpu, host }: Strike): string =>
  `${HOW[how]} ${DOING[doing]} on ${host}, accelerator ${gpu}`;
const HOW = { hung: "hung in", crashed: "crashed", killed: "was killed in" } as const;
const DOING = { run: "a run", load: "its load" } as const;

/** Status of a model for everybody: quarantined if its faults say so, otherwise `status`. */
export function statusWith(
  { name, number, version }: Pick<ModelSpec, "name" | "number" | "version">,
  status: ModelStatus | undefined,
  faults: ModelFaults | undefined,
): ModelStatus | undefined {
  if (faults === undefined || faults.quarantined === "") return status;
  const known = status ?? { name, number, version, profiles: [], means: [], executorTypes: [] };
  return { ...known, state: "quarantined", reason: faults.quarantined };
}
