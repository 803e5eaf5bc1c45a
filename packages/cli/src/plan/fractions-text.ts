/** Text of `tutti plan fractions`: the accelerators with their parts, and the reason for each model's part. */
import { type FractionModel, type PartitionStep, WHOLE } from "@tutti/planning";
import { renderTable } from "@tutti/admin";
import type { FractionsInput } from "./fractions-input.ts";
import type { DivisionResult, FractionsResult, FractionsRun, PartResult } from "./fractions-plan.ts";
import { bar, figure, listed, plural, share } from "./plan-text.ts";

export function renderFractions(result: FractionsResult): string {
  const { used, wholeExecutors, greedyExecutors, executors, executorsMax } = result;
  const served = plural(result.models.filter(({ rate }) => rate > 0).length, "model");
  const others = `whole ones: ${wholeExecutors ?? "impossible"}, greedy best-fit: ${greedyExecutors ?? "impossible"}`;
  if (!result.feasible)
    return `${served} ${served.startsWith("1 ") ? "doesn't" : "don't"} fit on ${plural(executorsMax, "accelerator")} (${others})`;
  const rows = executors.flatMap(({ executor, parts }) =>
    parts.map((part, place) => [place === 0 ? String(executor) : "", ...partCells(part)]),
  );
  const lines = [
    `${served} on ${plural(used, "accelerator")} (${others})`,
    "",
    renderTable(["accelerator", "part", "cycle", "occupied", "", "models"], rows),
  ];
  return lines.join("\n");
}

/** The rates that deferred batches carry on accelerators that are all alike, for comparison with the plan. */
export function renderDivision(division: DivisionResult | null): string[] {
  if (division === null) return [];
  const { kind, wholeRps, halvesRps, executors } = division;
  const rates = `halves ${figure(halvesRps)} r/s of this mix, whole ones ${figure(wholeRps)}`;
  const order = kind === "halves" ? "; `tutti up --divide` halves them" : "";
  return ["", `With deferred batches ${plural(executors, "accelerator")} can carry, all as ${rates} (D9)${order}.`];
}

/** Smaller factors would print as 1. */
const NOTICED = 1.005;

function partCells({ size, dutyCycleMs, occupancy, models }: PartResult): string[] {
  const items = models.map(({ model, rate, batchSize, worstMs, sloMs, factor }) => {
    const slower = factor >= NOTICED ? `, ${figure(factor)} times as slow beside its neighbour` : "";
    return `${model} ${figure(rate)} r/s by ${batchSize} (${figure(worstMs)} of ${figure(sloMs)} ms${slower})`;
  });
  const cycle = dutyCycleMs === null ? "-" : `${figure(dutyCycleMs)} ms`;
  return [`${size} %`, cycle, share(occupancy), bar(occupancy), dutyCycleMs === null ? "empty" : items.join(", ")];
}

/** One or more sentences for each model, in the order in which they were placed. */
export function explainFractions(input: FractionsInput, { result, steps }: FractionsRun): string[] {
  const order = [...new Set(steps.map(({ model }) => model))];
  const told = order.map((model) => {
    const own = steps.filter((step) => step.model === model);
    const texts = alike(own).map(
      (steps) => `${sentenceOf(steps[0]!, input)}${repeatedText(steps)}${sinceThen(steps[0]!, input, result)}`,
    );
    return `${heading(input, model)} ${sizesText(result, model)} ${texts.join(" ")}`;
  });
  const portfolio =
    result.splits === null
      ? []
      : [
          `Splitting accelerators as they are needed left something out on ${plural(result.splits.length, "accelerator")}; with splits that are fixed beforehand (${listed(result.splits.map(splitText), 12)}) all fits (portfolio, D3).`,
        ];
  const room =
    result.neighbours === "as-they-are"
      ? []
      : [
          "A part that one model fills takes no more than it could carry beside any other: without that room something was left out.",
        ];
  return [`Models come in ${result.order} order of rate times SLO (D3).`, ...room, ...portfolio, ...told];
}

/** Groups successive rounds that do the same on other accelerators. */
function alike(steps: readonly PartitionStep[]): PartitionStep[][] {
  const groups: PartitionStep[][] = [];
  for (const step of steps) {
    const group = groups.at(-1);
    if (group !== undefined && isAlike(group[0]!, step)) group.push(step);
    else groups.push([step]);
  }
  return groups;
}

const isAlike = (a: PartitionStep, b: PartitionStep): boolean =>
  a.kind === "part" &&
  b.kind === "part" &&
  a.plan.isSaturated &&
  b.plan.isSaturated &&
  a.isSplit === b.isSplit &&
  a.size === b.size &&
  a.plan.items[0]!.batchSize === b.plan.items[0]!.batchSize;

function repeatedText([, ...more]: readonly PartitionStep[]): string {
  if (more.length === 0) return "";
  const places = more.map((step) => String(step.kind === "failed" ? "" : step.executor));
  const rate = more.reduce((sum, step) => sum + step.rate, 0);
  return ` The same on accelerator${places.length === 1 ? "" : "s"} ${listed(places)}: ${figure(1000 * rate)} r/s more.`;
}

/** Explains a smaller final batch size: models placed later share the part. */
function sinceThen(step: PartitionStep, { names }: FractionsInput, { executors }: FractionsResult): string {
  if (step.kind === "failed") return "";
  const was = step.plan.items.find(({ model }) => model === step.model)!.batchSize;
  const part = executors[step.executor]?.parts[step.place];
  const now = part?.models.find(({ model }) => model === names[step.model.id]);
  if (now === undefined || now.batchSize === was) return "";
  const slower =
    now.factor >= NOTICED ? `, beside a neighbour that makes it take ${figure(now.factor)} times as long` : "";
  return ` Since others came, its batches are ${now.batchSize} instead of ${was}${slower}.`;
}

const splitText = (size: number): string => (size === WHOLE ? "whole" : `${size}/${WHOLE - size}`);

const heading = ({ names }: FractionsInput, { id, rate, slo }: FractionModel): string =>
  `${names[id]} (${figure(1000 * rate)} r/s within ${figure(slo)} ms):`;

function sizesText({ models }: FractionsResult, { id }: FractionModel): string {
  const { requiredSize, kneeSize } = models[id]!;
  const knee = kneeSize === WHOLE ? "the more the better" : `beyond ${kneeSize} % more brings ever less (the knee)`;
  if (requiredSize === null) return `no size carries all of it, and ${knee}.`;
  return `${requiredSize} % is the least that carries it, and ${knee}.`;
}

function sentenceOf(step: PartitionStep, { names }: FractionsInput): string {
  if (step.kind === "failed")
    return step.rest < step.model.rate
      ? `For the last ${figure(1000 * step.rest)} r/s no part is left.`
      : "No part is left that can carry it beside what is there.";
  const { plan, size, executor, factor, hasRefitted, rate, rest } = step;
  const own = plan.items.find(({ model }) => model === step.model)!;
  const beside = plan.items.filter(({ model }) => model !== step.model).map(({ model }) => names[model.id]!);
  const slower =
    factor >= NOTICED ? ` Beside its neighbour it takes ${figure(factor)} times as long (interference, D2).` : "";
  const refit = hasRefitted ? " Its neighbour's batches were made smaller, so that they bear it (refit, D3)." : "";
  const cycle = plan.isSaturated
    ? `batch after batch of ${own.batchSize}`
    : `${own.batchSize} at a time in a cycle of ${figure(plan.dutyCycle)} ms`;
  const after = `${slower}${refit}`;
  if (step.kind === "shared") {
    const choice = step.choices === 1 ? "the only part with room" : `of ${step.choices} parts with room the fullest`;
    return `It takes turns with ${listed(beside)} on the ${size} % of accelerator ${executor}, ${choice} (temporal merge, D3): ${cycle}, and the part is ${share(step.occupancy)} occupied.${after}`;
  }
  const how = step.isSplit
    ? `accelerator ${executor} was split for it, ${splitText(size)}`
    : size === WHOLE
      ? `accelerator ${executor} is its own`
      : `the ${size} % of accelerator ${executor} were free`;
  const ideal = Math.min(step.knee, step.required);
  const fit =
    size === ideal
      ? "just what is ideal"
      : size > ideal
        ? `${ideal} % would be ideal`
        : `smaller than the ideal ${ideal} %`;
  const part = rate < rest * (1 - 1e-9) ? ` That serves ${figure(1000 * rate)} of ${figure(1000 * rest)} r/s.` : "";
  const refused =
    step.refused === 0
      ? ""
      : ` ${plural(step.refused, "other choice")} before ${step.refused === 1 ? "was" : "were"} too small for it or its neighbour.`;
  return `No part has room for it to take turns: ${how} (best fit, D3; ${fit}), ${cycle}.${part}${refused}${after}`;
}
