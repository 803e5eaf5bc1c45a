/**
 * Compares the simulator with a running system.
 *
 *   npm run bench:agreement -- [--rate 1000] [--seconds 20] [--gpus 8] [--warmup 10s] [--policy
 *   adaptive|deferred|eager] [--prefer accelerators|latency] [--slowdown 1] [--json]
 *
 * `--slowdown 8` serves the same load in slow motion, so that a shortage of processors matters less.
 */
import { type AgreementOptions, measureAgreement } from "./agreement.ts";
import { renderAgreement } from "./agreement-text.ts";
import { readArguments } from "../arguments.ts";

const USAGE =
  "npm run bench:agreement -- [--rate 1000] [--seconds 20] [--gpus 8] [--warmup 10s] [--policy adaptive|deferred|eager] [--prefer accelerators|latency] [--slowdown 1] [--json]\n";

const values = readArguments(USAGE, {
  rate: { type: "string", default: "1000" },
  seconds: { type: "string", default: "20" },
  gpus: { type: "string", default: "8" },
  warmup: { type: "string", default: "10s" },
  policy: { type: "string", default: "adaptive" },
  prefer: { type: "string", default: "accelerators" },
  slowdown: { type: "string", default: "1" },
  json: { type: "boolean", default: false },
});
const policy = (["adaptive", "deferred", "eager"] as const).find((name) => name === values.policy);
const prefer = (["accelerators", "latency"] as const).find((name) => name === values.prefer);
if (policy === undefined || prefer === undefined) {
  process.stderr.write(USAGE);
  process.exit(2);
}
const options: AgreementOptions = {
  rate: Number(values.rate),
  seconds: Number(values.seconds),
  gpus: Number(values.gpus),
  warmup: values.warmup,
  policy,
  prefer,
  slowdown: Number(values.slowdown),
};
const agreement = await measureAgreement(options);
process.stdout.write(values.json ? `${JSON.stringify({ ...options, ...agreement })}\n` : renderAgreement(agreement));
