/** Text of `tutti plan scale`: one row for each window, and the reason for its advice. */
import { renderTable } from "@tutti/admin";
import type { ScaleInput } from "./scale-input.ts";
import type { ScaleResult, WindowResult } from "./scale-plan.ts";
import { figure, plural } from "./plan-text.ts";

export function renderScale({ scenario, ask }: ScaleInput, result: ScaleResult): string {
  const { windows, gpusMean, badRate, feasible } = result;
  const rows = windows.map((one) => [
    String(one.window),
    figure(one.rate),
    String(one.gpus),
    percent(one.badRate),
    percent(one.idleShare),
    change(one.windowAdvice),
    change(one.advice),
    String(one.gpusNext),
    ...(ask ? [String(one.fewest ?? "-"), oneLessText(one)] : []),
  ]);
  const asked = ask ? ["fewest", "one less"] : [];
  const lines = [
    `${plural(scenario.models.length, "model")}, policy ${scenario.policy}: ${figure(gpusMean)} accelerators on average, ${percent(badRate)} of all requests bad`,
    "",
    renderTable(["window", "r/s", "accelerators", "bad", "idle", "advice alone", "advice", "next", ...asked], rows),
  ];
  if (!feasible)
    lines.push(
      "",
      ask
        ? "For some rates no number of accelerators is enough: some model can't meet its SLO."
        : "Windows stayed bad.",
    );
  return lines.join("\n");
}

function oneLessText({ oneLess, fewest }: WindowResult): string {
  if (fewest === undefined) return "-";
  if (fewest === 1) return "-";
  return oneLess === null ? "too few for the work" : `${percent(oneLess)} bad`;
}

const percent = (value: number): string => `${(100 * value).toFixed(2)} %`;
const change = (advice: number): string =>
  advice === 0 ? "keep" : advice > 0 ? `add ${advice}` : `release ${-advice}`;

/** One or more sentences for each window. */
export function explainScale({ advice }: ScaleInput, { windows }: ScaleResult): string[] {
  return windows.map((one, i) => {
    const measured =
      one.windowAdvice > 0
        ? `${percent(one.badRate)} were bad, above ${percent(advice.badRateMax)}: N·r/(1−r) asks for ${one.windowAdvice} more (A8).`
        : one.windowAdvice < 0
          ? `${percent(one.idleShare)} of the time was idle, above ${percent(advice.idleShareMax)}: N·f offers ${-one.windowAdvice} (A8).`
          : `${percent(one.badRate)} were bad, and ${percent(one.idleShare)} of the time was idle${one.idleShare > advice.idleShareMax ? `, not so much as one of ${one.gpus} accelerators` : ""}: nothing to ask for, nothing to offer (A8).`;
    return `Window ${one.window}, ${figure(one.rate)} r/s on ${one.gpus}: ${[measured, outcome(one, windows[i + 1], advice.windowsToRelease), asked(one)].filter(Boolean).join(" ")}`;
  });
}

function outcome(one: WindowResult, next: WindowResult | undefined, inARow: number): string {
  const { advice, windowAdvice, gpusNext, fewest } = one;
  if (advice > 0 && advice > windowAdvice) {
    const ahead =
      next !== undefined && next.rate > one.rate
        ? `the ${figure(next.rate)} r/s that are forecast next need`
        : "the simulator says that this rate needs";
    return `${capital(ahead)} ${gpusNext}: ${plural(advice, "accelerator")} are started at once.`;
  }
  if (advice > 0) return `They are started at once: ${gpusNext}.`;
  if (advice < 0) {
    const least =
      -advice < -windowAdvice ? ", the least that the row of windows had to spare, and no fewer than are needed" : "";
    return `It is the last of ${plural(inARow, "window")} in a row that offered some: ${plural(-advice, "accelerator")} are released${least}.`;
  }
  if (windowAdvice === 0) return "";
  if (fewest !== undefined && gpusNext <= Math.max(fewest, next?.fewest ?? 0))
    return `But ${gpusNext} are needed: idle time in short gaps can't be given back.`;
  return `It isn't yet the last of ${plural(inARow, "window")} in a row that offered some: nothing is released.`;
}

function asked({ fewest, oneLess }: WindowResult): string {
  if (fewest === undefined) return "";
  if (fewest === 1) return "One is enough for this rate, says the simulator.";
  const less =
    oneLess === null
      ? "with one less there is more work than time"
      : `with one less ${percent(oneLess)} of the worst model's would be bad`;
  return `The simulator needs ${fewest} for this rate; ${less}.`;
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
