/** The report for a terminal. */
import type { ChaosRecord } from "./record.ts";
import { type Verdict, failuresOf } from "./verdict.ts";

const FINDINGS_SHOWN = 10;

export function reportText(record: ChaosRecord, verdict: Verdict): string {
  const { sent, answeredOnce, inTime, late, refused, unavailable, lost, twice, repeated, wrong, unaccounted } = verdict;
  const seconds = (record.endedMs - record.startedMs) / 1_000;
  const causes = Object.entries(refused).map(([cause, count]): [string, string] => [`refused: ${cause}`, `${count}`]);
  const { lostButAnswered } = verdict;
  const lateAnswers = lostButAnswered === 0 ? "" : ` (${lostButAnswered} of them answered after the client gave up)`;
  const rows: [string, string][] = [
    ["strikes", `${record.strikes.length} in ${seconds.toFixed(0)} s, seed ${record.seed}`],
    ["requests sent", `${sent} (${(sent / seconds).toFixed(0)} per second)`],
    ["answered once", `${answeredOnce}`],
    ["  in time", `${inTime}`],
    ["  late", `${late}`],
    ...causes.map(([name, value]): [string, string] => [`  ${name}`, value]),
    ["unavailable", `${unavailable} (what they went through was killed or frozen)`],
    ["lost", `${lost.length}${lateAnswers}`],
    ["answered twice", `${twice.length}`],
    ...(repeated > 0 ? [["  the same again after a server broke", `${repeated}`] as [string, string]] : []),
    ["answered wrongly", `${wrong.length}`],
    ["unaccounted", `${unaccounted}`],
    ["in time, of those outside the aftermath", `${(100 * verdict.inTimeShare).toFixed(3)} % of ${verdict.judged}`],
    ["generator late by at most", `${record.lagMsMax.toFixed(0)} ms`],
  ];
  const failures = failuresOf(verdict);
  const findings = [...lost, ...wrong, ...twice].slice(0, FINDINGS_SHOWN).map(({ text }) => `  ${text}`);
  return [
    ...rows.map(([name, value]) => `${name.padEnd(40)} ${value}`),
    "",
    ...serviceRows(verdict),
    ...(findings.length === 0 ? [] : ["", ...findings]),
    "",
    failures.length === 0 ? "passed" : `FAILED: ${failures.join("; ")}`,
  ].join("\n");
}

function serviceRows({ roles, usualMs }: Verdict): string[] {
  const row = (name: string, ...values: string[]): string =>
    name.padEnd(22) + values.map((value) => value.padStart(10)).join("");
  return [
    row("time without service", "strikes", "p50 (ms)", "p99 (ms)"),
    ...roles.map(({ role, strikes, p50Ms, p99Ms }) => row(role, `${strikes}`, p50Ms.toFixed(0), p99Ms.toFixed(0))),
    row("(without a strike)", "", usualMs.toFixed(0)),
  ];
}
