/** The text after the colon of a policy's name. Errors say what it may be. */
import { type Micros, micros, parseDuration } from "@tutti/units";

export const NO_TIME = micros(0);

/** @throws Error unless `text` is absent */
export function noParameter(policy: string, text: string | undefined): void {
  if (text !== undefined) throw new Error(`policy '${policy}' has no parameter, but was given '${text}'`);
}

/** @throws Error for what is no length of time */
export function durationParameter(policy: string, text: string | undefined, otherwise: Micros): Micros {
  if (text === undefined) return otherwise;
  const duration = parseDuration(text);
  if (duration !== undefined) return duration;
  throw new Error(`policy '${policy}' takes a time, as in '${policy}:5ms', but was given '${text}'`);
}

export interface NumberRange {
  readonly policy: string;
  readonly text: string | undefined;
  readonly otherwise: number;
  readonly least: number;
  readonly most: number;
  readonly example: string;
  readonly whole: "whole" | "any";
}

/** @throws Error for what is no number, or out of its range */
export function numberParameter({ policy, text, otherwise, least, most, example, whole }: NumberRange): number {
  if (text === undefined) return otherwise;
  const value = text.trim() === "" ? NaN : Number(text);
  const isNumber = whole === "whole" ? Number.isInteger(value) : Number.isFinite(value);
  if (isNumber && value >= least && value <= most) return value;
  const kind = whole === "whole" ? "a whole number" : "a number";
  throw new Error(
    `policy '${policy}' takes ${kind} from ${least} to ${most}, as in '${policy}:${example}', but was given '${text}'`,
  );
}
