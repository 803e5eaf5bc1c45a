/** Text of `tutti plan query`. */
import { renderTable } from "@tutti/admin";
import type { QueryInput } from "./query-input.ts";
import type { QueryResult, StageResult } from "./query-plan.ts";
import { figure, plural, share } from "./plan-text.ts";

export function renderQuery({ sloMs, rate, fits, planned, even }: QueryResult): string {
  if (planned === undefined) {
    const room = fits === 1 ? "a batch of one" : "two batches of one";
    return `No split of ${figure(sloMs)} ms gives every stage the time for ${room}.`;
  }
  const rows = planned.stages.map((stage, i) => [
    stage.stage,
    `${figure(stage.rate)} r/s`,
    `${figure(stage.budgetMs)} ms`,
    String(stage.batchSize),
    figure(stage.executors),
    ...evenCells(even?.stages[i]),
  ]);
  const beside =
    even === undefined ? "in equal parts the SLO can't be kept" : `${figure(even.executors)} in equal parts`;
  return [
    `${figure(rate)} queries a second within ${figure(sloMs)} ms take ${figure(planned.executors)} executors; ${beside}`,
    "",
    renderTable(["stage", "rate", "time", "batch", "executors", "even", "batch", "executors"], rows),
  ].join("\n");
}

const evenCells = (stage: StageResult | undefined): string[] =>
  stage === undefined
    ? ["-", "-", "-"]
    : [`${figure(stage.budgetMs)} ms`, String(stage.batchSize), figure(stage.executors)];

/** One or more sentences for each stage, in the order of the file. */
export function explainQuery({ query }: QueryInput, { planned, even, fits, sloMs }: QueryResult): string[] {
  return query.stages.map(({ name, latency, rate }, i) => {
    const alone = latency.latency(latency.batchSizes[0] ?? 1);
    const least = `${name} (${figure(1000 * rate)} r/s):`;
    if (planned === undefined)
      return `${least} even its smallest batch takes ${figure(alone)} ms, and needs ${figure(fits * alone)} of the ${figure(sloMs)} ms.`;
    const { budgetMs, batchSize, batchMs, executors } = planned.stages[i]!;
    const room = fits === 1 ? "" : " twice, since a request may have to wait for a whole batch";
    const own = `${figure(budgetMs)} ms: a batch of ${batchSize} takes ${figure(batchMs)} ms and fits in${room} (C5); ${figure(executors)} executors carry it, ${share(executors / planned.executors)} of all.`;
    return `${least} ${own}${comparison(planned.stages[i]!, even?.stages[i])}`;
  });
}

function comparison(planned: StageResult, even: StageResult | undefined): string {
  if (even === undefined) return "";
  if (even.batchSize === planned.batchSize) return " In equal parts its batches would be as large.";
  const change = planned.executors - even.executors;
  const word = change < 0 ? "fewer" : "more";
  const text = `${figure(Math.abs(change))} executors ${word} than with ${figure(even.budgetMs)} ms and ${plural(even.batchSize, "request")} a batch`;
  return ` That is ${text}${change > 0 ? ", which others save more than" : ""}.`;
}
