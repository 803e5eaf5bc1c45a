/** `tutti bench`, as `tutti --help` lists it. */
import type { Command } from "commander";

const HELP = `
Load is open: requests leave when they are due, whatever became of the earlier ones, and latency counts from then; a server that stalls is seen in every
request that was due meanwhile. A request is good when its outputs come within its SLO. At the end the client says how far it was behind itself; where that
decides about the figures, it says so and ends with exit code 1, as it does when it is interrupted (Ctrl-C prints what was measured until then).

A request is lost when nothing came back until --grace after its SLO, as when its ingress or a NATS server ended meanwhile; the clients of Tutti would tell
TUTTI_UNAVAILABLE. Where no ingress is there at all, NATS says so at once, and the request counts as refused (UNAVAILABLE).

  tutti bench mlp --rate 200                                         one model, its own SLO, random inputs
  tutti bench --mix ocr-rec.web:3,mlp.batch:1 --rates 50,100,200     two models, in the name of two applications, at three rates
  tutti bench --mix mix.yaml --find-goodput --html out.html          the highest rate with at most 1 % bad for every model
  tutti bench mlp --http http://127.0.0.1:8000 --arrivals gamma:0.5  through the gateway, in bursts
  tutti bench --arrivals trace:trace.jsonl                           what \`tutti record\` wrote, at its own pace

A mix in YAML is \`streams:\` with a model, and app, weight, slo and input (a file) where wanted.`;

export function addBench(program: Command, toCluster: (command: Command) => Command): void {
  toCluster(program.command("bench [model]"))
    .description("offer a load at a rate, and say what became of its requests: latencies, goodput, refusals")
    .option("--mix <model.app:weight,...|mix.yaml>", "which models, in whose name, how often against the others")
    .option("--rate <r/s>", "requests per second of all together (default: 100; of a trace its own pace)")
    .option("--rates <a,b,c>", "one rate after the other")
    .option("--find-goodput", "search the highest rate with at most 1 % bad requests for every model, from --rate on")
    .option("--seconds <n>", "of measurement, for each rate (default: 10; of a trace all of it)")
    .option("--warmup <seconds>", "of load before each measurement", "2")
    .option("--arrivals <process>", "poisson, uniform, gamma:<shape> (bursts below 1), trace:<file>", "poisson")
    .option("--slo <duration>", "of every request, such as 50ms (default: each model's own)")
    .option("--input <[model=]file>", "what to send, as for `tutti infer`; again for each model", collect)
    .option("--app <name>", "in the name of which application, where --mix names none", "bench")
    .option("--seed <n>", "equal seeds, equal arrivals", "1")
    .option("--grace <seconds>", "an answer so long after its SLO counts as lost", "2")
    .option("--http <url>", "through this gateway (Open Inference Protocol) instead of over NATS")
    .option("--connections <n>", "at once, with --http", "256")
    .option("--html <out.html>", "draw it: a page that needs nothing else")
    .addHelpText("after", HELP)
    .action(async (model: string | undefined, options) => (await import("../commands/bench.ts")).bench(model, options));
}

const collect = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];
