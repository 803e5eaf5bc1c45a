/** `npm run attack -- --fairness`: what one application can cost another, kind of body by kind of body. */
import type { Size } from "../attack.ts";
import { megabytes } from "../witness.ts";
import { fairnessRun } from "./fairness-run.ts";
import { KINDS, type Kind } from "./kinds.ts";
import { type KindResult, percent } from "./verdict.ts";

/** @returns whether every kind held */
export async function reportFairness(kinds: readonly Kind[], size: Size, form: "text" | "json"): Promise<boolean> {
  const results = await fairnessRun({
    ...{ kinds, size },
    onResult: (result) => void (form === "json" || console.log(lineOf(result))),
  });
  const broken = results.filter((result) => result.broken.length > 0);
  if (form === "json") console.log(JSON.stringify({ broken: broken.length, results }));
  else console.log(`\n${tableOf(results)}\n\n${results.length - broken.length} held, ${broken.length} BROKEN`);
  return broken.length === 0;
}

export const KIND_NAMES: readonly string[] = KINDS.map(({ name }) => name);

const lineOf = ({ name, what, broken }: KindResult): string =>
  broken.length === 0 ? `held   ${name.padEnd(16)} ${what}` : `BROKEN ${name.padEnd(16)} ${broken.join("; ")}`;

const COLUMNS = [
  "kind",
  "sent/s",
  "in time: HTTP",
  "NATS",
  "median",
  "longest turn",
  "over 5 ms",
  "memory",
  "left",
  "back after",
];

/** A table as documentation has it. */
function tableOf(results: readonly KindResult[]): string {
  const rows = results.map((result) => {
    const { name, broken, sentPerSecond, inTime, p50Ms, turns, grown, left, backMs } = result;
    return [
      `\`${name}\`${broken.length === 0 ? "" : " BROKEN"}`,
      `${Math.round(sentPerSecond)}`,
      ...[percent(inTime.http), percent(inTime.nats), `${p50Ms.toFixed(0)} ms`],
      ...[`${turns.ownMsMax.toFixed(1)} ms`, percent(turns.overShare)],
      ...[grown, left].map(({ node, children, server }) => [node, children, server].map(megabytes).join(" + ")),
      `${(backMs / 1_000).toFixed(1)} s`,
    ];
  });
  return [COLUMNS, COLUMNS.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}
