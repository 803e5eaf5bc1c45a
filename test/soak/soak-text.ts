/** The report for a terminal. */
import type { SoakRecord } from "./soak-run.ts";
import { type SoakVerdict, slopeText } from "./soak-verdict.ts";

export function soakText({ chaos, counts }: SoakRecord, { series, requests, failures }: SoakVerdict): string {
  const minutes = (chaos.endedMs - chaos.startedMs) / 60_000;
  const row = (...cells: readonly string[]): string =>
    cells.map((cell, i) => (i < 2 ? cell.padEnd(14) : cell.padStart(i === 4 ? 28 : 10))).join("");
  const shown = (kind: string, value: number | undefined): string =>
    value === undefined ? "" : kind === "descriptors" ? value.toFixed(0) : `${(value / 1_048_576).toFixed(0)} MB`;
  return [
    `${minutes.toFixed(1)} minutes, ${chaos.strikes.length} strikes, ${requests.sent} requests: ${requests.inTime} in time, ` +
      `${requests.lost.length} lost, ${requests.twice.length} answered twice, ${requests.wrong.length} wrongly, ${requests.unavailable} unavailable; ` +
      `${(100 * requests.inTimeShare).toFixed(2)} % in time outside the moments after strikes`,
    `${counts.cancels} cancels, ${counts.abortedBodies} aborted bodies, ${counts.connects} connects, ${counts.loads} loads and unloads`,
    "",
    row("", "", "mean", "most", "slope"),
    ...series.map(({ kind, name, trend, max, grew }) =>
      row(kind, name, shown(kind, trend?.mean), shown(kind, max), `${slopeText({ kind, trend })}${grew ? " !" : ""}`),
    ),
    "",
    failures.length === 0 ? "passed" : `FAILED: ${failures.join("; ")}`,
  ].join("\n");
}
