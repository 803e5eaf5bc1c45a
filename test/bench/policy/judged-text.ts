/** Outcome of the judge of policies, and its table. */
import type { ComparedMix } from "@tutti/simulator";

/** The default beside the best of the other policies. */
export type MixRatio = Pick<ComparedMix, "seed" | "goodputRps" | "rival" | "rivalRps">;

export interface Judged {
  readonly policies: readonly string[];
  /** Goodputs in the order of the policies, r/s. */
  readonly rows: readonly {
    readonly name: string;
    readonly boundRps: number;
    readonly goodputRps: readonly number[];
  }[];
  readonly mixes: readonly MixRatio[];
}

/** @param before - an earlier outcome: its default is compared with this one's */
export function render({ policies, rows, mixes }: Judged, before?: Judged): string {
  const head = ["goodput, r/s", ...policies, "bound", ...(before === undefined ? [] : ["default ÷ before"])];
  const lines = rows.map(({ name, goodputRps, boundRps }) => [
    ...[name, ...goodputRps.map(whole), whole(boundRps)],
    ...(before === undefined ? [] : [ratio(defaultOf(policies, goodputRps), earlier(before, name))]),
  ]);
  const table = [head, head.map(() => "---"), ...lines].map((cells) => `| ${cells.join(" | ")} |\n`).join("");
  return table + mixesText(mixes, before);
}

function mixesText(mixes: readonly MixRatio[], before: Judged | undefined): string {
  if (mixes.length === 0) return "";
  const beside = mixes.map((mix) => ({ ...mix, ratio: mix.goodputRps / mix.rivalRps }));
  const worst = beside.reduce((a, b) => (b.ratio < a.ratio ? b : a));
  const range = `${mixes[0]!.seed} to ${mixes.at(-1)!.seed}`;
  const text = `\n${mixes.length} random mixes (seeds ${range}), default ÷ best of the others: geometric mean ${meanOf(beside)}, worst ${worst.ratio.toFixed(3)} (${worst.seed}, ${worst.rival})\n`;
  const since = mixes.flatMap(({ seed, goodputRps }) => {
    const was = before?.mixes.find((mix) => mix.seed === seed)?.goodputRps;
    return was === undefined ? [] : [{ seed, ratio: goodputRps / was }];
  });
  if (since.length === 0) return text;
  const least = since.reduce((a, b) => (b.ratio < a.ratio ? b : a));
  return `${text}default ÷ before: geometric mean ${meanOf(since)}, worst ${least.ratio.toFixed(3)} (${least.seed})\n`;
}

function earlier({ policies, rows }: Judged, name: string): number | undefined {
  const row = rows.find((one) => one.name === name);
  return row && defaultOf(policies, row.goodputRps);
}

const defaultOf = (policies: readonly string[], goodputs: readonly number[]): number | undefined =>
  goodputs[policies.indexOf("default")];
const whole = (rps: number): string => Math.round(rps).toLocaleString("en-US");
const ratio = (now: number | undefined, was: number | undefined): string =>
  now === undefined || was === undefined ? "–" : (now / was).toFixed(3);
const meanOf = (ratios: readonly { readonly ratio: number }[]): string =>
  Math.exp(ratios.reduce((sum, one) => sum + Math.log(one.ratio), 0) / ratios.length).toFixed(3);
