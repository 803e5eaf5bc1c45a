/** The `tutti` command. Every command's own code is imported when it is called, so that `tutti --help` costs nothing. */
import { Command } from "commander";
import { report } from "./failure.ts";

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
  return program;
}

/** Options of every command that speaks to a cluster. */
const toCluster = (command: Command): Command =>
  command
    .option("--nats <urls>", "servers of the cluster, separated by commas")
    .option("--creds <file>", "credentials")
    .option("--cluster <name>", "which cluster")
    .option("--json", "print JSON");

function addUp(program: Command): void {
  program
    .command("up")
    .description("start everything on this machine, load models, and print a line of status a second until Ctrl-C")
    .option("--port <port>", "port of the NATS server (default: 4222 if it is free, else any)")
    .option("--nats <urls>", "use these servers instead of starting one")
    .option("--creds <file>", "credentials, with --nats")
    .option("--executors <n>", "executor processes (default: cores - 1, at least 1)")
    .option("--emulate <profiles.yaml>", "emulated models and accelerators: runs take the time that the profiles say")
    .option("--gpus <n>", "emulated accelerators, with --emulate", "8")
    .option("--models <folder>", "load a model repository: name/1/model.onnx, optional name/config.yaml")
    .option("--no-demo", "don't load the demo models")
    .option("--policy <policy>", "when batches start: deferred, eager, timeout:5ms, latest, beta-lambda", "deferred")
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
    .action(async (options) => (await import("./commands/models.ts")).models(options));
  toCluster(program.command("status"))
    .description("list the actors that are there")
    .option("--wait <seconds>", "how long to listen", "1.2")
    .action(async (options) => (await import("./commands/status.ts")).status(options));
}

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
