/**
 * The accelerator time that jobs use beside requests, and what the requests notice (docs/algorithms.md, A13). The
 * actors are production's, in virtual time, so the figures are the same on every machine.
 *
 *   npm run bench:jobs -- [--rates 130,260,340] [--seconds 20] [--gpus 2]
 */
import { seconds } from "@tutti/units";
import { shareTime } from "../../cluster/job-load.ts";
import { readArguments } from "../arguments.ts";

/** l(b) = 4·b + 16 ms: two accelerators carry 430 requests a second. */
const MODEL = { name: "resnet", alphaMs: 4, betaMs: 16, sloMs: 400 };
/** Jobs in flight for each accelerator: more than two of the largest batches. */
const JOBS_EACH = 64;

const values = readArguments("npm run bench:jobs -- [--rates 130,260,340] [--seconds 20] [--gpus 2]\n", {
  rates: { type: "string", default: "130,260,340" },
  seconds: { type: "string", default: "20" },
  gpus: { type: "string", default: "2" },
});
const rates = values.rates.split(",").map(Number);
const duration = seconds(Number(values.seconds));
const gpus = Number(values.gpus);

const rows = rates.map((rate) => {
  const cluster = { gpus, policy: { kind: "adaptive" } } as const;
  const given = { model: MODEL, cluster, rate, duration };
  return { rate, without: shareTime({ ...given, jobs: 0 }), beside: shareTime({ ...given, jobs: JOBS_EACH * gpus }) };
});
process.stdout.write(`${JSON.stringify({ model: MODEL, gpus, seconds: duration / 1e6, rows }, undefined, 2)}\n`);
