/** The `tutti` command. Every command's own code is imported when it is called, so that `tutti --help` costs nothing. */
import { Command } from "commander";
import { addAuth } from "./auth/program.ts";
import { report } from "./failure.ts";
import { addOperators } from "./operator/program.ts";

const EXIT_CODES = `
Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 no cluster reached.
Commands find a cluster by --nats, else TUTTI_NATS, else the one that \`tutti up\` started last here.`;

function createProgram(): Command {
  const program = new Command("tutti")
    .description(
      "Serves DNN inference under latency SLOs over NATS, with the largest batches that still meet every deadline.",
    )
    .version("0.1.0")
    .enablePositionalOptions()
    .exitOverride() // before commands are added: they inherit it
    .showHelpAfterError("(--help says more)")
    .addHelpText("after", EXIT_CODES);
  addUp(program);
  addRun(program);
  addInfer(program);
  addModels(program);
  addOperators(program, toCluster);
  addSimulate(program);
  addCompare(program);
  addGoodput(program);
  addFigures(program);
  addRecord(program);
  addAuth(program);
  return program;
}

/** Options of every command that speaks to a cluster. */
const toCluster = (command: Command): Command =>
  command
    .option("--nats <urls>", "servers of the cluster, separated by commas")
    .option("--creds <file>", "credentials")
    .option("--tls-ca <file>", "speak TLS, with servers whose certificates this authority has signed")
    .option("--cluster <name>", "which cluster")
    .option("--json", "print JSON");

function addUp(program: Command): void {
  program
    .command("up")
    .description("start everything on this machine, load models, and print a line of status a second until Ctrl-C")
    .option("--port <port>", "port of the NATS server (default: 4222 if it is free, else any)")
    .option("--nats <urls>", "use these servers instead of starting one")
    .option("--creds <file>", "credentials, with --nats: one file, or a folder with one for each role")
    .option("--tls-ca <file>", "TLS for every connection: the authority's certificate, and with it")
    .option("--tls-cert <file>", "the certificate of the NATS server and of the ingress,")
    .option("--tls-key <file>", "and its key (`tutti auth init --tls` makes all three)")
    .option("--executors <n>", "executor processes (default: cores - 1, at least 1; with --emulate 1)")
    .option("--ingresses <n>", "ingress processes (default: 1)")
    .option("--batchers <n>", "batcher processes (default: 1)")
    .option("--rankers <n>", "ranker processes, of which one leads (default: 2)")
    .option("--emulated-executors <n>", "beside the real ones, for models with latencies in their configuration")
    .option("--emulate <profiles.yaml>", "emulated models and accelerators: runs take the time that the profiles say")
    .option("--gpus <n>", "emulated accelerators, with --emulate", "8")
    .option("--models <folder>", "load a model repository: name/1/model.onnx, optional name/config.yaml")
    .option("--no-demo", "don't load the demo models")
    .option(
      "--policy <policy>",
      "when batches start: adaptive, deferred, eager, timeout:5ms, latest, beta-lambda",
      "adaptive",
    )
    .option("--gather <how>", "target or head", "target")
    .option("--patience <0..1>", "for all models: 0 is lowest latency, 1 largest batches (default: each model's own)")
    .option("--provider <provider>", "execution provider: cpu, webgpu, cuda", "cpu")
    .option("--data-plane <plane>", "how inputs reach executors: tcp or nats", "tcp")
    .option("--apps <names>", "give these applications credentials, and take requests with credentials only")
    .option("--http-port <port>", "loopback port of the health pages", "0")
    .option("--rehearsal <duration>", "how long to warm up with requests of its own before it is ready (default: 4s)")
    .option("--otlp <url>", "export traces, such as to http://127.0.0.1:4318")
    .option("--log-level <level>", "of the log files: debug, info, warn, error", "info")
    .option("--once-ready <command>", "run this shell command when everything is served, then stop with its exit code")
    .option("--json", "print JSON lines")
    .action(async (options) => (await import("./commands/up.ts")).up(options));
}

function addRun(program: Command): void {
  program
    .command("run <role> [flags...]")
    .description("run one role in the foreground: ingress, batcher, ranker, executor, profiler, planner, gateway")
    .addHelpText("after", "\n`tutti run <role> --help` lists the flags of a role.")
    .helpOption(false)
    .allowUnknownOption()
    .passThroughOptions()
    .action(async (role: string, flags: string[]) => (await import("./commands/run.ts")).run(role, flags));
}

function addInfer(program: Command): void {
  toCluster(program.command("infer <model>"))
    .description("ask a model once (or once for each frame of a sound) and print what it says")
    .option("--input <file>", ".json, .npy, .jpg, .png or .wav (default: random numbers of the declared shapes)")
    .option("--app <name>", "in the name of which application", "cli")
    .option("--slo <duration>", "how soon the answer is needed, such as 50ms (default: the model's SLO)")
    .option("--form <form>", "of the message: binary, json, msgpack", "binary")
    .option("--outputs <names>", "only these outputs, separated by commas")
    .option("--seed <n>", "of random inputs", "1")
    .action(async (model: string, options) => (await import("./commands/infer.ts")).infer(model, options));
}

function addModels(program: Command): void {
  toCluster(program.command("load <path>"))
    .description("serve a model file, or a folder of them, and wait until it is measured and served")
    .option("--slo <duration>", "from arrival to answer, such as 30ms")
    .option("--max-batch <n>", "largest batch")
    .option("--patience <0..1>", "0 is lowest latency, 1 largest batches")
    .option(
      "--share <app=weight...>",
      "what an application counts under overload, '*' for all others (default: its usual rate)",
    )
    .option("--name <name>", "(default: that of the file)")
    .option("--config <config.yaml>", "(default: the config.yaml beside the file)")
    .option("--profile <file>", "latencies given instead of measured: { 1: 6ms, 8: 12ms }")
    .option(
      "--sample <folder>",
      "inputs to measure with, as `tutti infer --input` reads them (default: random numbers)",
    )
    .option("--timeout <seconds>", "how long to wait until it is served", "120")
    .action(async (path: string, options) => (await import("./commands/load.ts")).load(path, options));
  toCluster(program.command("unload <model>"))
    .description("stop serving a model")
    .action(async (model: string, options) => (await import("./commands/unload.ts")).unload(model, options));
  toCluster(program.command("models"))
    .description("list models, their state and their latencies")
    .option("--release <model>", "serve this one again, which was quarantined because it ended its executors")
    .action(async (options) => (await import("./commands/models.ts")).models(options));
}

function addRecord(program: Command): void {
  toCluster(program.command("record"))
    .description("write down requests as they pass (when, which model and application, how large) until Ctrl-C")
    .requiredOption("--out <trace.jsonl>", "the file, which must not be there yet; `tutti simulate` replays it")
    .option("--seconds <n>", "stop after so long")
    .option("--models <names>", "only these models, separated by commas")
    .option("--payloads", "keep the inputs as well, in base64")
    .action(async (options) => (await import("./commands/record.ts")).record(options));
}

function addSimulate(program: Command): void {
  inScenario(program.command("simulate <scenario.yaml>"))
    .description("run a workload on emulated accelerators in virtual time, and say what became of its requests")
    .option("--policy <policy>", "instead of the scenario's: default, deferred, eager, timeout:5ms, nexus:8, ...")
    .option("--log <file.jsonl>", "write every decision as a line of JSON")
    .option("--explain <requestId>", "tell the story of one request instead; they are numbered from 1 as they arrive")
    .option("--html <out.html>", "draw what happened: a page that needs nothing else")
    .option("--json", "print JSON")
    .addHelpText("after", SCENARIOS)
    .action(async (path: string, options) => (await import("./commands/simulate.ts")).simulate(path, options));
}

function addCompare(program: Command): void {
  inScenario(program.command("compare <scenario.yaml>"))
    .description("run the same arrivals under several policies")
    .option("--policies <a,b,c>", "which, separated by commas", "default,deferred,eager")
    .option("--goodput", "find each one's goodput too: the highest rate with at most 1 % bad for every model")
    .option("--html <out.html>", "draw them side by side: a page that needs nothing else")
    .option("--json", "print JSON")
    .addHelpText("after", SCENARIOS)
    .action(async (path: string, options) => (await import("./commands/compare.ts")).compare(path, options));
}

const SCENARIOS = `
Scenario files are described in docs/simulator.md; test/bench/scenarios has those of the papers.`;

/** What a command line may say in place of a scenario file. */
const inScenario = (command: Command): Command =>
  command
    .option("--rate <r/s>", "requests per second of all models together")
    .option("--seed <n>", "equal seeds, equal results")
    .option("--gpus <n>", "accelerators")
    .option("--duration <seconds>", "of arrivals, warm-up included")
    .option("--gather <how>", "target or head")
    .option("--set <axis=value>", "choose on an axis of a family of scenarios; again for each axis", collect);

function addGoodput(program: Command): void {
  inScenario(program.command("goodput <scenario.yaml>"))
    .description("find the highest rate at which every model has at most 1 % bad requests")
    .option("--policy <policy>", "instead of the scenario's: default, deferred, eager, timeout:5ms, nexus:8, ...")
    .option("--seeds <n>", "so many seeds from the scenario's on: the mean of their goodputs", "1")
    .option("--min-gpus", "find the fewest accelerators for the scenario's rate, or that of --rate, instead")
    .option("--workers <n>", "threads (default: one per core)")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `${SCENARIOS}\nTrials have at least 20 s of arrivals after the warm-up, unless --duration says otherwise.`,
    )
    .action(async (path: string, options) => (await import("./commands/goodput.ts")).goodput(path, options));
}

function addFigures(program: Command): void {
  program
    .command("figures")
    .description("redraw the papers' figures from our own simulations, with a table of the papers' numbers beside ours")
    .requiredOption("--out <folder>", "for the pictures, results.html, results.md and results.json")
    .option("--only <names>", "only these, separated by commas (a wrong name lists them)")
    .option("--quick", "few points and short runs: shows in minutes what the figures look like")
    .option("--resume", "keep the figures that the folder has, and draw the others")
    .option("--scenarios <folder>", "(default: test/bench/scenarios)")
    .option("--workers <n>", "threads (default: one per core)")
    .action(async (options) => (await import("./commands/figures.ts")).figures(options));
}

const collect = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];

async function main(argv: readonly string[]): Promise<void> {
  const program = createProgram();
  try {
    await program.parseAsync([...argv], { from: "user" });
  } catch (error) {
    // commander has printed its own errors (and help) already; they are wrong usage.
    if (isUsage(error)) process.exitCode = error.exitCode === 0 ? 0 : 2;
    else report(error, argv.includes("--json"));
  }
}

const isUsage = (error: unknown): error is { readonly exitCode: number } =>
  error instanceof Error && "code" in error && String(error.code).startsWith("commander.");

await main(process.argv.slice(2));
