import { type TrialResult, runTrial } from "./trial.ts";

/** How many seeds have been taken by all threads together. */
export type SeedsTaken = Int32Array<SharedArrayBuffer>;

export interface FuzzJob {
  readonly taken: SeedsTaken;
  readonly from: number;
  readonly count: number;
  readonly forMs: number;
}

export interface FuzzReport {
  readonly seeds: number;
  readonly asked: number;
  readonly ok: number;
  /** Text for people; undefined: all is well. */
  readonly failure: string | undefined;
}

/** Runs the next seed that no other thread has taken, until there are none or time is up. */
export function runSeeds({ taken, from, count, forMs }: FuzzJob, report: (report: FuzzReport) => void): void {
  const endsAt = performance.now() + forMs;
  for (;;) {
    const index = Atomics.add(taken, 0, 1);
    if (index >= count || performance.now() >= endsAt) return;
    const result = runTrial(from + index);
    const { asked, ok, violation } = result;
    const failure = violation === undefined ? undefined : failureText(runTrial(from + index, "told"));
    report({ seeds: 1, asked, ok, failure });
  }
}

const LINES_SHOWN = 60;

/** Text of a failing seed: the violation, the end of its story, and how to replay it. */
export function failureText({ seed, violation, story }: TrialResult): string {
  const lines = story.slice(-LINES_SHOWN).map((line) => (line.length > 220 ? `${line.slice(0, 220)}…` : line));
  return [
    `seed ${seed}: ${violation?.invariant}: ${violation?.text}`,
    "its last events:",
    ...lines,
    `replay it: npm run fuzz -- --seed ${seed}`,
  ].join("\n");
}
