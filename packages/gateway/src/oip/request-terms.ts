/** Terms of a request beside its tensors, such as its application and its SLO. */
import {
  type CostOffset,
  HEADER,
  ID_LENGTH_MAX,
  SIZE_HINT_MAX,
  SLO_US_MAX,
  NAME_RULE,
  TuttiError,
  isName,
  parseCosts,
} from "@tutti/protocol";
import { type Micros, micros, parseDuration } from "@tutti/units";
import { type Parameters, flagOf } from "./infer-head.ts";

export interface RequestTerms {
  readonly app: string;
  /** Undefined: the model's own. */
  readonly slo: Micros | undefined;
  /** Costs of a late answer; the first step is at the SLO. */
  readonly costs: readonly CostOffset[] | undefined;
  readonly priority: number | undefined;
  readonly size: number | undefined;
  readonly traceparent: string | undefined;
  /** Undefined: the request belongs to no sequence. */
  readonly sequence: SequenceStep | undefined;
}

/** One request of a sequence, between which the model keeps a state. */
export interface SequenceStep {
  /** The client's name of it; a number and a text are two. */
  readonly id: string;
  readonly isStart: boolean;
  readonly isEnd: boolean;
}

const APP_DEFAULT = "default";
/** Largest value of our priorities, which begin at 0. */
const MOST_URGENT = 255;

/**
 * Reads the terms of a request. Parameters win over headers. The priority is the protocol's parameter `priority`, or
 * the header `tutti-priority`. The SLO is the parameter `slo` ("25ms", or milliseconds), the header `tutti-slo`, the
 * protocol's parameter `timeout` (microseconds), or the time until the transport's own deadline. The parameter `costs`,
 * or the header `tutti-costs` ("25ms=1, 100ms=3"), says the SLO with its first step: another one beside it is refused.
 *
 * @param header - by lower-case name
 * @param own - the application of the request's key, which may ask in its own name only; undefined: in any
 * @throws {TuttiError} INVALID_INPUT naming the unreadable value, FORBIDDEN for the name of another application
 */
export function readTerms(
  header: (name: string) => string | undefined,
  parameters: Parameters,
  { timeLeft, own }: { readonly timeLeft?: Micros | undefined; readonly own?: string | undefined } = {},
): RequestTerms {
  const app = String(parameters["app"] ?? header("tutti-app") ?? own ?? APP_DEFAULT);
  if (!isName(app)) throw invalid(`"${app.slice(0, 80)}" is no name of an application: ${NAME_RULE} (tutti-app)`);
  if (own !== undefined && app !== own)
    throw new TuttiError(
      "TUTTI_FORBIDDEN",
      `this key is of "${own}": it may not ask in the name of "${app}" (tutti-app)`,
    );
  const costs = readCosts(parameters["costs"] ?? header(HEADER.costs.toLowerCase()));
  const slo = readSlo(parameters["slo"] ?? header("tutti-slo"));
  if (costs !== undefined && slo !== undefined && slo !== costs[0]!.after)
    throw invalid("the first step of the costs is the SLO: leave the SLO out (tutti-costs, tutti-slo)");
  return {
    app,
    costs,
    slo: costs?.[0]!.after ?? slo ?? readTimeout(parameters["timeout"]) ?? timeLeft,
    priority:
      readPriority(parameters["priority"]) ??
      numberOf("tutti-priority", header(HEADER.priority.toLowerCase()), { least: 0, most: MOST_URGENT, whole: true }),
    size: numberOf("tutti-size", header(HEADER.size.toLowerCase()), { least: 0, most: SIZE_HINT_MAX, whole: false }),
    traceparent: header(HEADER.traceparent),
    sequence: readSequence(parameters),
  };
}

/**
 * Terms after reading the body took so long.
 *
 * @param own - the model's SLO
 * @throws {TuttiError} DEADLINE_EXCEEDED
 */
export function termsLeft(terms: RequestTerms, own: Micros | undefined, tookMs: number): RequestTerms {
  if (terms.costs === undefined) return { ...terms, slo: leftOf(terms.slo ?? own, tookMs) };
  const took = Math.ceil(tookMs * 1_000);
  const last = terms.costs.at(-1)!;
  const passed = terms.costs.filter(({ after }) => after <= took).at(-1);
  if (passed === last) leftOf(last.after, tookMs); // throws
  // A step that has passed is no reason to hurry.
  const costs = terms.costs
    .filter(({ after }) => after > took)
    .map(({ after, cost }) => ({ after: micros(after - took), cost: cost - (passed?.cost ?? 0) }));
  return { ...terms, costs, slo: costs[0]!.after };
}

/** Remaining SLO after reading the body. @throws {TuttiError} DEADLINE_EXCEEDED */
function leftOf(slo: Micros | undefined, tookMs: number): Micros | undefined {
  if (slo === undefined) return undefined;
  const left = Math.floor(slo - tookMs * 1_000);
  if (left > 0) return micros(left);
  throw new TuttiError("TUTTI_DEADLINE_EXCEEDED", `decoding alone took ${tookMs.toFixed(1)} ms of ${slo / 1_000} ms`);
}

function readSlo(given: string | number | boolean | undefined): Micros | undefined {
  if (given === undefined) return undefined;
  const slo = parseDuration(typeof given === "number" ? `${given}ms` : String(given));
  if (slo === undefined || slo === 0 || slo > SLO_US_MAX)
    throw invalid(
      `the SLO "${String(given).slice(0, 80)}" is no length of time above zero and up to 10 min: write 25ms or 1.5s (tutti-slo)`,
    );
  return slo;
}

function readCosts(given: string | number | boolean | undefined): readonly CostOffset[] | undefined {
  if (given === undefined) return undefined;
  const costs = parseCosts(String(given));
  if (typeof costs === "string") throw invalid(`the costs "${String(given).slice(0, 80)}": ${costs} (tutti-costs)`);
  return costs;
}

/** Reads the timeout; the protocol's clients send 0 for none. */
function readTimeout(given: string | number | boolean | undefined): Micros | undefined {
  if (given === undefined || given === 0) return undefined;
  const timeout = Number(given);
  if (!Number.isSafeInteger(timeout) || timeout < 0 || timeout > SLO_US_MAX)
    throw invalid(`timeout is a whole number of microseconds up to ${SLO_US_MAX} (SLO_US_MAX)`);
  return micros(timeout);
}

/**
 * Reads Triton's priority. It counts from 1, the most urgent, and 0 stands for the model's own level, which no model
 * has here. Levels beyond 255 are the least urgent together.
 */
function readPriority(given: string | number | boolean | undefined): number | undefined {
  if (given === undefined || given === 0) return undefined;
  if (typeof given !== "number" || !Number.isInteger(given) || given < 0)
    throw invalid(
      `the parameter priority is a whole number from 0: 1 is the most urgent, 0 says nothing; got "${String(given).slice(0, 40)}"`,
    );
  return Math.max(0, MOST_URGENT + 1 - given);
}

/** Reads the step of a sequence. The id 0, or an empty one, stands for none. */
function readSequence(parameters: Parameters): SequenceStep | undefined {
  const id = parameters["sequence_id"];
  const isStart = flagOf(parameters, "sequence_start") ?? false;
  const isEnd = flagOf(parameters, "sequence_end") ?? false;
  if (id === undefined || id === 0 || id === "") {
    if (!isStart && !isEnd) return undefined;
    throw invalid("sequence_start and sequence_end need a sequence_id: a whole number above 0, or a text");
  }
  const isId = typeof id === "string" ? id.length <= ID_LENGTH_MAX : Number.isSafeInteger(id) && Number(id) > 0;
  if (!isId)
    throw invalid(
      `sequence_id is a whole number from 1 to 2^53 - 1, or a text of at most ${ID_LENGTH_MAX} characters (ID_LENGTH_MAX)`,
    );
  return { id: JSON.stringify(id), isStart, isEnd };
}

function numberOf(
  name: string,
  text: string | undefined,
  { least, most, whole }: { readonly least: number; readonly most: number; readonly whole: boolean },
): number | undefined {
  if (text === undefined) return undefined;
  const value = text.trim() === "" ? NaN : Number(text);
  if (value >= least && value <= most && (!whole || Number.isInteger(value))) return value;
  throw invalid(`${name} "${text.slice(0, 80)}" is no ${whole ? "whole " : ""}number from ${least} to ${most}`);
}

const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
