import { TuttiError } from "@tutti/protocol";
import { readCall, readResult, stepError } from "./run-step.ts";
import type { FinishFunction, StageFunction } from "./step-function.ts";
import type { StepCall, StepOutcome, Steps } from "./steps.ts";

/** Runs functions in the turn in which they are called, without a time limit: for tests, and in virtual time. */
export function inlineSteps(functions: Readonly<Record<string, StageFunction | FinishFunction>>): Steps {
  return {
    run(call, done) {
      let isWanted = true;
      const end = (outcome: StepOutcome | TuttiError): void => {
        if (isWanted) done(outcome);
      };
      runInline(functions, call, end);
      return () => (isWanted = false);
    },
  };
}

function runInline(
  functions: Readonly<Record<string, StageFunction | FinishFunction>>,
  call: StepCall,
  done: (outcome: StepOutcome | TuttiError) => void,
): void {
  /** Catches errors of `run`, but not of `done`. */
  const attempt = <T>(run: () => T): T | TuttiError => {
    try {
      return run();
    } catch (error) {
      return stepError(call, error);
    }
  };
  const started = attempt(() => {
    const found = functions[call.function];
    if (found === undefined) throw new TuttiError("TUTTI_INTERNAL", `there is no function ${call.function}`);
    const kept = Object.fromEntries(Object.entries(call.kept).map(([stage, { value }]) => [stage, value]));
    const { step, read } = readCall(call, kept);
    return { result: found(step), read };
  });
  if (started instanceof TuttiError) return done(started);
  const settle = (result: unknown): StepOutcome => {
    const { keep, ...rest } = readResult(call, result, started.read);
    return { ...rest, keep: keep === undefined ? undefined : { value: keep, bytes: 0 } };
  };
  const { result } = started;
  if (!(result instanceof Promise)) return done(attempt(() => settle(result)));
  void result.then(
    (value) => done(attempt(() => settle(value))),
    (error: unknown) => done(stepError(call, error)),
  );
}
