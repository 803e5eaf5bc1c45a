import { expect, test } from "vitest";
import { chaosRun } from "./chaos-run.ts";
import type { Layout } from "./record.ts";
import { reportPage } from "./report-page.ts";
import { SLO_MS } from "./request-code.ts";
import { reportText } from "./report-text.ts";
import { failuresOf, judge } from "./verdict.ts";

/** Strikes of the short form; `npm run chaos` runs more. */
const STRIKES = 8;
/** Least share in time, for a machine that may be busy: the long form demands 0.99. */
const SHARE_MIN = 0.9;
/** Grace for a busy machine, instead of the 100 ms that a client waits beyond a deadline. */
const GRACE_MS = 1_000;

const LAYOUTS: readonly (readonly [string, Layout, readonly string[]])[] = [
  ["a process for each role", { kind: "spread", nodes: 1 }, ["ingress", "batcher", "ranker", "executor"]],
  ["two nodes", { kind: "node", nodes: 2 }, ["node", "executor"]],
];

const WHAT = `${STRIKES} strikes lose no request, and none is answered twice or wrongly (T1, T2)`;

test.each(LAYOUTS)(`${WHAT}: %s`, async (_, layout, roles) => {
  const record = await chaosRun({ seed: 1, layout, perSecond: 120, sloMs: SLO_MS, strikes: STRIKES, forMs: 90_000 });
  const verdict = judge(record, GRACE_MS);
  expect(record.strikes.length).toBe(STRIKES);
  const struck = new Set<string>(record.strikes.map(({ role }) => role));
  for (const role of roles) expect(struck).toContain(role);
  expect(verdict.sent).toBeGreaterThan(500);
  expect(failuresOf(verdict, SHARE_MIN), reportText(record, verdict)).toEqual([]);
  expect(reportPage(record, verdict, "npm test", SHARE_MIN)).toContain("Nothing was lost");
});
