/**
 * A rollout step by step: when the next share is due, and when everything goes back. It is pure; its caller asks once a
 * second.
 *
 *   RA1. A step is taken only after the one before it was in force, and observed, for its part of the time. After an
 *        absence the steps follow one by one.
 *   RA2. Only requests since the step in force began are judged: the many good ones of a small share would hide the
 *        first bad ones of a large one.
 *   RA3. Two bad requests may be chance, however large a share they are: they don't turn a rollout back.
 */
import { type Instant, type Micros, formatDuration, micros } from "@tutti/units";

export interface RampInForce {
  /** Percent; the last is the goal. */
  readonly steps: readonly number[];
  readonly step: number;
  readonly steppedAt: Instant;
  readonly over: Micros;
  /** Shares: 0 … 1. */
  readonly badMax: number;
  readonly mismatchMax: number;
}

/** Requests of the version that gets the share, since the step in force began. */
export interface RampSeen {
  /** Requests answered in time, and requests refused or late. */
  readonly good: number;
  readonly bad: number;
  /** Answers that were compared with those of the other version, and those that differ. */
  readonly compared: number;
  readonly mismatched: number;
  /** Whether it can be served now, and the reason why it never will be; "" as long as there is none. */
  readonly serves: boolean;
  readonly givenUp: string;
}

export type RampVerdict =
  | { readonly kind: "stay" | "done" }
  | { readonly kind: "step"; readonly step: number }
  | { readonly kind: "back"; readonly why: string };

/** Fewest bad requests that turn a rollout back (RA3). */
const BAD_LEAST = 3;

/** Time that each step is in force. */
export const stepTime = ({ over, steps }: Pick<RampInForce, "over" | "steps">): Micros =>
  micros(Math.ceil(over / steps.length));

export function judgeRamp(ramp: RampInForce, seen: RampSeen, now: Instant): RampVerdict {
  const { steps, step, steppedAt, badMax, mismatchMax } = ramp;
  const { good, bad, compared, mismatched, serves, givenUp } = seen;
  if (givenUp !== "") return { kind: "back", why: givenUp };
  const time = formatDuration(micros(Math.max(0, now - steppedAt)));
  if (bad >= BAD_LEAST && bad > badMax * (good + bad))
    return {
      kind: "back",
      why: `${bad} of ${good + bad} requests at ${steps[step]} % were refused or late within ${time}, more than ${percentText(badMax)}`,
    };
  if (mismatched > mismatchMax * compared)
    return {
      kind: "back",
      why: `${mismatched} of ${compared} compared answers differ, more than ${percentText(mismatchMax)}`,
    };
  if (!serves || now - steppedAt < stepTime(ramp)) return { kind: "stay" };
  return step + 1 < steps.length ? { kind: "step", step: step + 1 } : { kind: "done" };
}

const percentText = (share: number): string => `${Number((share * 100).toFixed(3))} %`;
