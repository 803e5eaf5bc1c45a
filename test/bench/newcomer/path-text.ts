export interface PathStep {
  readonly step: string;
  readonly seconds: number;
}

/** A table of the steps: duration of each, and when it was done. */
export function pathTable(steps: readonly PathStep[]): string {
  let at = 0;
  const rows = steps.map(({ step, seconds }) => {
    at += seconds;
    return `${seconds.toFixed(1).padStart(7)} s  ${at.toFixed(1).padStart(7)} s  ${step}\n`;
  });
  return `${"took".padStart(9)}  ${"done at".padStart(9)}\n${rows.join("")}`;
}
