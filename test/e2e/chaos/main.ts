/**
 * Strikes a cluster of processes for some minutes, and reports the outcome of every request. Exit code 1: a request was
 * lost, answered twice or wrongly, or too few were in time.
 */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { chaosRun } from "./chaos-run.ts";
import type { Strike } from "./record.ts";
import { SLO_MS } from "./request-code.ts";
import { reportPage } from "./report-page.ts";
import { reportText } from "./report-text.ts";
import { failuresOf, judge } from "./verdict.ts";

const USAGE = `npm run chaos -- [options]
Kills, stops and pauses processes of a cluster under load: test/e2e/chaos/README.md.

  --minutes <n>          how long (3)
  --strikes <n>          ends after so many
  --layout node|spread   whole nodes, or a process for each role (spread, or node where --nodes is given)
  --nodes <n>            nodes on this machine (1)
  --nats <1|3>           servers: three of one cluster are struck as well (1)
  --seed <n>             of the strikes and the requests (1)
  --rate <n>             requests per second (200)
  --slo <ms>             of each (${SLO_MS})
  --out <report.html>    a page with what happened when
  --json                 print JSON instead of text
  --help                 print this

Exit code 1: something was lost, answered twice or wrongly, or too little was in time.`;

const text = { type: "string" } as const;
const { values } = parseArgs({
  options: {
    minutes: { ...text, default: "3" },
    strikes: { ...text, default: "100000" },
    layout: text,
    nodes: text,
    nats: { ...text, default: "1" },
    seed: { ...text, default: "1" },
    rate: { ...text, default: "200" },
    slo: { ...text, default: `${SLO_MS}` },
    out: text,
    json: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(USAGE);
  process.exit(0);
}
const names = ["minutes", "strikes", "nodes", "seed", "rate", "slo"] as const;
const [minutes, strikes, nodes, seed, rate, sloMs] = names.map((name) => Number(values[name] ?? 1)) as [
  number,
  number,
  number,
  number,
  number,
  number,
];
const { layout: kind = values.nodes === undefined ? "spread" : "node" } = values;
const isCounted = [minutes, strikes, nodes, seed, rate, sloMs].every((value) => value > 0);
if (!isCounted || !["1", "3"].includes(values.nats) || (kind !== "node" && kind !== "spread")) {
  console.error(USAGE);
  process.exit(2);
}

const startedMs = performance.now();
const record = await chaosRun({
  seed,
  layout: { kind, nodes, ...(values.nats === "3" && { natsServers: 3 as const }) },
  perSecond: rate,
  sloMs,
  strikes,
  forMs: minutes * 60_000,
  onWarning: (warning) => void process.stderr.write(`warning: ${warning}\n`),
  onStrike: ({ name, leading, signal }: Strike, sent) => {
    const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1);
    process.stderr.write(
      `${seconds.padStart(7)} s  ${signal} ${name}${leading ? " (leading)" : ""}, ${sent} requests so far\n`,
    );
  },
});
const verdict = judge(record);
const servers = values.nats === "1" ? "" : " --nats 3";
const shape = `${kind === "spread" ? "" : ` --layout node --nodes ${nodes}`}${servers}`;
const command = `npm run chaos -- --minutes ${minutes}${shape} --seed ${seed} --rate ${rate}${sloMs === SLO_MS ? "" : ` --slo ${sloMs}`}`;
if (values.out !== undefined) writeFileSync(values.out, reportPage(record, verdict, command));
if (values.json) {
  const { fates: _, ...rest } = verdict;
  console.log(JSON.stringify({ command, failures: failuresOf(verdict), ...rest }));
} else console.log(`\n${reportText(record, verdict)}`);
process.exitCode = failuresOf(verdict).length === 0 ? 0 : 1;
