/**
 * Keeps a cluster under load for a long time, and checks that nothing grows, is lost or is answered wrongly. Exit code
 * 1: something was.
 */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { CLIENT_GRACE_MS, IN_TIME_SHARE_MIN } from "../e2e/chaos/verdict.ts";
import { soakPicture } from "./soak-picture.ts";
import { soakRun } from "./soak-run.ts";
import { soakText } from "./soak-text.ts";
import { soakVerdict } from "./soak-verdict.ts";

const USAGE = `npm run soak -- [options]
Two nodes under load with cancels, aborted bodies, connects, loads and kills: test/soak/README.md.

  --minutes <n>        how long (60)
  --rate <n>           requests per second (150)
  --slo <ms>           of each (500)
  --strike-every <s>   seconds from one kill, stop or freeze to the next (30)
  --grace <ms>         after its deadline a client takes a request for lost (${CLIENT_GRACE_MS})
  --share <0..1>       of requests that must be in time, outside the moments after strikes (${IN_TIME_SHARE_MIN})
  --seed <n>           of the requests and the strikes (1)
  --out <picture.svg>  what each process held, over time
  --json               print JSON instead of text
  --help               print this

Exit code 1: memory, descriptors or disk grew beyond noise, or requests were lost, answered twice, wrongly, or too few in time.`;

const text = { type: "string" } as const;
const { values } = parseArgs({
  options: {
    minutes: { ...text, default: "60" },
    rate: { ...text, default: "150" },
    slo: { ...text, default: "500" },
    "strike-every": { ...text, default: "30" },
    grace: { ...text, default: `${CLIENT_GRACE_MS}` },
    share: { ...text, default: `${IN_TIME_SHARE_MIN}` },
    seed: { ...text, default: "1" },
    out: text,
    json: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(USAGE);
  process.exit(0);
}
const numberOf = (name: "minutes" | "rate" | "slo" | "strike-every" | "grace" | "share" | "seed"): number => {
  const number = Number(values[name]);
  if (number > 0) return number;
  console.error(`--${name} ${values[name]}: a number above zero\n\n${USAGE}`);
  process.exit(2);
};

// A normal exit ends child processes too; an exit by a signal would not.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

const record = await soakRun({
  minutes: numberOf("minutes"),
  perSecond: numberOf("rate"),
  sloMs: numberOf("slo"),
  seed: numberOf("seed"),
  strikeEveryMs: 1_000 * numberOf("strike-every"),
  onMinute: (minute, { requests, strikes }) =>
    process.stderr.write(`${minute} min: ${requests} requests, ${strikes} strikes\n`),
});
const verdict = soakVerdict(record, numberOf("grace"), numberOf("share"));
if (values.out !== undefined) writeFileSync(values.out, soakPicture(record, verdict));
console.log(values.json ? JSON.stringify({ ...verdict, counts: record.counts }) : soakText(record, verdict));
process.exitCode = verdict.failures.length === 0 ? 0 : 1;
