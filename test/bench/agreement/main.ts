/**
 * Compares the simulator with a running system.
 *
 *   npm run bench:agreement -- [--workloads table2,zoo,bursty] [--seconds 20] [--warmup 10s] [--json]
 *
 * It ends with 1 where they are apart by more than 5 %. The p99 of answers needs more than ten seconds.
 */
import { measureAgreement } from "./agreement.ts";
import { renderAgreement } from "./agreement-text.ts";
import { LOOKS_BACK_S } from "./live-run.ts";
import { WORKLOADS } from "./workloads.ts";
import { readArguments } from "../arguments.ts";

const NAMES = WORKLOADS.map(({ name }) => name).join(",");
const USAGE = `npm run bench:agreement -- [--workloads ${NAMES}] [--seconds 20] [--warmup 10s] [--json]\n`;

const { workloads, seconds, warmup, json } = readArguments(USAGE, {
  workloads: { type: "string", default: NAMES },
  seconds: { type: "string", default: "20" },
  warmup: { type: "string", default: "10s" },
  json: { type: "boolean", default: false },
});
const chosen = workloads.split(",").map((name) => WORKLOADS.find((workload) => workload.name === name));
for (const workload of chosen) {
  if (workload === undefined || !(Number.isInteger(Number(seconds)) && Number(seconds) > LOOKS_BACK_S)) {
    process.stderr.write(USAGE);
    process.exit(2);
  }
}
for (const workload of chosen) {
  const agreement = await measureAgreement(workload!, { seconds: Number(seconds), warmup });
  process.stdout.write(json ? `${JSON.stringify(agreement)}\n` : renderAgreement(agreement));
  if (agreement.compared.some(({ agrees }) => !agrees)) process.exitCode = 1;
}
