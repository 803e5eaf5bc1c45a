/**
 * Load from a process of its own: `tutti bench`'s open loop with a raw payload, or a closed one.
 *
 *   node test/bench/load/main.ts --nats URL --model NAME --rate 2000 --seconds 20 [--warmup 2] [--slo 25ms] [--bytes 4]
 *   [--input x] [--seed 1] [--arrivals poisson|uniform] [--app load]
 *
 * `--window 512 [--pause 2ms]` instead of `--rate`: so many requests under way, the next when one is answered. Prints
 * one JSON object (LoadReport or ClosedLoopReport); progress goes to standard error.
 */
import { parseArgs } from "node:util";
import { connectNats } from "@tutti/bus-nats";
import { NodeClock } from "@tutti/node/clock";
import { type Micros, parseDuration, seconds } from "@tutti/units";
import { encodeTensors } from "@tutti/wire";
import { ClosedLoop } from "./closed-loop.ts";
import { offerLoad } from "./open-loop.ts";

const { values } = parseArgs({
  options: {
    nats: { type: "string", default: "nats://127.0.0.1:4222" },
    model: { type: "string", default: "resnet50" },
    app: { type: "string", default: "load" },
    rate: { type: "string", default: "2000" },
    seconds: { type: "string", default: "20" },
    warmup: { type: "string", default: "2" },
    slo: { type: "string", default: "25ms" },
    bytes: { type: "string", default: "4" },
    input: { type: "string", default: "x" },
    seed: { type: "string", default: "1" },
    arrivals: { type: "string", default: "poisson" },
    window: { type: "string" },
    pause: { type: "string", default: "0us" },
  },
});

const data = new Uint8Array(Number(values.bytes));
const payload = encodeTensors([{ name: values.input, type: "FP32", dims: [1, data.byteLength / 4], data }]);
const clock = new NodeClock();
await clock.ready();
const connections = await connectNats({ servers: values.nats, name: "load" });
const common = {
  model: values.model,
  app: values.app,
  duration: seconds(Number(values.seconds)),
  warmup: seconds(Number(values.warmup)),
  slo: parseDuration(values.slo) ?? (25_000 as Micros),
  seed: Number(values.seed),
  payload,
};
const report = values.window === undefined ? await openLoop() : await closedLoop(Number(values.window));
process.stdout.write(`${JSON.stringify(report)}\n`);
await connections.close();
clock.close();

function openLoop() {
  const load = {
    ...common,
    rate: Number(values.rate),
    arrivals: values.arrivals === "uniform" ? ("uniform" as const) : ("poisson" as const),
    grace: seconds(2),
  };
  return offerLoad(connections.control, clock, load, (text) => void process.stderr.write(`load: ${text}\n`));
}

function closedLoop(window: number) {
  return new ClosedLoop(connections.control, clock, {
    ...common,
    window,
    pause: parseDuration(values.pause) ?? (0 as Micros),
  }).run();
}
