/**
 * The commands of `tutti` with their flags and help. A command's own code is imported when the command is called, so
 * that `tutti --help` starts fast.
 */
import { FILE_OPTION, UP_OPTIONS, describe, flagOf, oppositeOf } from "@tutti/host";
import { Command, Option } from "commander";
import { addAuth } from "./programs/auth.ts";
import { addBench } from "./bench/program.ts";
import { addConfig } from "./config/program.ts";
import { addCompletion } from "./completion/program.ts";
import { addDoctor } from "./programs/doctor.ts";
import { addExamples } from "./examples.ts";
import { addOperators } from "./programs/operator.ts";
import { addPlan } from "./plan/program.ts";
import { addJobs } from "./programs/jobs.ts";
import { addRollout } from "./programs/rollout.ts";

const EXIT_CODES = `
Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 no cluster reached.
Commands find a cluster by --nats, else TUTTI_NATS, else the one that \`tutti up\` started last here.`;

/** Creates the program. It throws instead of ending the process: the caller of `parse` catches. */
export function createProgram(): Command {
  const program = new Command("tutti")
    .description(
      "Serves DNN inference under latency SLOs over NATS, with the largest batches that still meet every deadline.",
    )
    .option("-V, --version", "print the versions, as `tutti version` does")
    .enablePositionalOptions()
    .exitOverride() // before the commands are added, which inherit it
    .showHelpAfterError("(--help says more)")
    .addHelpText("after", EXIT_CODES);
  addUp(program);
  addRun(program);
  addInfer(program);
  addModels(program);
  addRollout(program, toCluster);
  addJobs(program, toCluster);
  addBench(program, toCluster);
  addOperators(program, toCluster);
  addSimulate(program);
  addCompare(program);
  addGoodput(program);
  addRecordNoise(program);
  addFigures(program);
  addPlan(program, toCluster);
  addRecord(program);
  addScenario(program);
  addAuth(program);
  addConfig(program);
  addDoctor(program, toCluster);
  addCompletion(program);
  addVersion(program);
  addExamples(program);
  return program;
}

/** Adds the options of every command that connects to a cluster. */
const toCluster = (command: Command): Command =>
  command
    .option("--nats <urls>", "servers of the cluster, separated by commas")
    .option("--creds <file>", "credentials")
    .option("--tls-ca <file>", "speak TLS, with servers whose certificates this authority has signed")
    .option("--cluster <name>", "which cluster")
    .option("--json", "print JSON");

function addVersion(program: Command): void {
  program
    .command("version")
    .description("print the versions of tutti, Node, nats-server, onnxruntime and the project's @tutti/client")
    .option("--json", "print JSON")
    .addHelpText("after", "\nExit code 1: they don't fit together, and a line on stderr says which.")
    .action(async (options) => (await import("./commands/version.ts")).version(options));
}

function addUp(program: Command): void {
  const command = program
    .command("up")
    .description("start everything on this machine, load models, and show a line of status until Ctrl-C");
  for (const spec of [FILE_OPTION, ...UP_OPTIONS]) {
    command.addOption(new Option(flagOf(spec), describe(spec)));
    if (spec.value === undefined) command.addOption(new Option(oppositeOf(spec)).hideHelp());
  }
  command.action(async () => (await import("./commands/up.ts")).up(command));
}

function addRun(program: Command): void {
  program
    .command("run <role> [flags...]")
    .description(
      "run a role in the foreground (ingress, batcher, ranker, executor, profiler, planner, gateway, jobs), several with commas between them, or node: all but executor",
    )
    .addHelpText("after", "\n`tutti run <role> --help` lists the flags of a role.")
    .helpOption(false)
    .allowUnknownOption()
    .passThroughOptions()
    .action(async (role: string, flags: string[], _, command: Command) => {
      if (role === "--help" || role === "-h") return command.help(); // after a role they are that role's
      return (await import("./commands/run.ts")).run(role, flags);
    });
}

function addInfer(program: Command): void {
  toCluster(program.command("infer <model>"))
    .description("ask a model once (or once for each frame of a sound), or a pipeline, and print what it says")
    .option("--input <file>", ".json, .npy, .jpg, .png or .wav (default: random numbers of the declared shapes)")
    .option("--app <name>", "in the name of which application", "cli")
    .option("--slo <duration>", "how soon the answer is needed, such as 50ms (default: the model's SLO)")
    .option("--size <n>", "the request's length in its model's own unit (default: read from the tensors)")
    .option("--form <form>", "of the message: binary, json, msgpack", "binary")
    .option("--outputs <names>", "only these outputs, separated by commas")
    .option("--seed <n>", "of random inputs", "1")
    .action(async (model: string, options) => (await import("./commands/infer.ts")).infer(model, options));
}

function addModels(program: Command): void {
  toCluster(program.command("load [paths...]"))
    .description(
      "serve model files, or folders of them, from here, s3://, https:// or oci://, and wait until they are measured and served",
    )
    .option("--demo", "the demo models too, with their own settings, as `tutti up` serves them")
    .option("--slo <duration>", "from arrival to answer, such as 30ms")
    .option("--max-batch <n>", "largest batch")
    .option("--patience <0..1>", "0 is lowest latency, 1 largest batches")
    .option(
      "--share <app=weight...>",
      "what an application counts under overload, '*' for all others (default: its usual rate)",
    )
    .option("--name <name>", "(default: that of the file)")
    .option(
      "--version <version>",
      "beside the versions that are there, instead of the model of that name: `tutti rollout`",
    )
    .option("--config <config.yaml>", "(default: the config.yaml beside the file)")
    .option("--profile <file>", "latencies given instead of measured: { 1: 6ms, 8: 12ms }")
    .option(
      "--sample <folder>",
      "inputs to measure with, as `tutti infer --input` reads them (default: random numbers)",
    )
    .option(
      "--families <when>",
      "serve models that begin alike together: auto (where it pays), always, never (docs/families.md)",
      "auto",
    )
    .option("--family <name>", "serve all of them as one family of this name")
    .option("--with <models>", "served models, or families with all of theirs, to take in too, separated by commas")
    .option("--timeout <seconds>", "how long to wait until it is served", "120")
    .action(async (paths: string[], options) => (await import("./commands/load.ts")).load(paths, options));
  toCluster(program.command("unload <model>"))
    .description("stop serving a model")
    .action(async (model: string, options) => (await import("./commands/unload.ts")).unload(model, options));
  toCluster(program.command("models"))
    .description("list models, their state and their latencies")
    .option("--families", "list what is served together, and what that shares")
    .option("--release <model>", "serve this one again, which was quarantined because it ended its executors")
    .action(async (options) => (await import("./commands/models.ts")).models(options));
  toCluster(program.command("pipelines <folder>"))
    .description(
      "list the pipelines that a folder declares, with the time that each stage has, by the profiles of the cluster",
    )
    .option(
      "--fan-out <stage=n>",
      "requests of a stage for each of the pipeline (default: 1); again for each stage",
      collect,
    )
    .action(async (folder: string, options) => (await import("./commands/pipelines.ts")).pipelines(folder, options));
  addProfile(program);
}

function addProfile(program: Command): void {
  toCluster(program.command("profile [model]"))
    .description(
      "show what a model's batches take, as given and as learned, with the spread of recent runs, and how long its requests take alone, by application; or measure how models slow one another on parts of an accelerator",
    )
    .option("--html <out.html>", "draw them too: a page that needs nothing else")
    .option(
      "--interference",
      "measure pairs of models on two parts of one accelerator, and fit what they cost each other; needs no cluster",
    )
    .option("--out <file.yaml>", "interference: write an input for `tutti plan fractions`, rates to be filled in")
    .option("--models <folder>", "interference: models in Triton's layout (default: the demo models)")
    .option(
      "--provider <cpu|cuda>",
      "interference: parts by cores, or by CUDA MPS, whose control daemon runs already (default: cpu)",
    )
    .option(
      "--sizes <50,80>",
      "interference: parts in percent, with each its rest (default: what the accelerator can be split into)",
    )
    .option("--pairs <n>", "interference: how many pairs to measure at most (default: 60)")
    .option("--run-ms <ms>", "interference: how long each measurement takes at least (default: 300)")
    .option("--cache <bytes>", "interference: of the shared cache, such as 50MB (default: this machine's)")
    .option(
      "--bandwidth <bytes>",
      "interference: of memory in a second, such as 3350GB (default: as measured by copying)",
    )
    .option("--emulate <input.yaml>", "interference: on emulated parts, by an input of `tutti plan fractions`")
    .option("--set <axis=value>", "interference: which one of a family of inputs; again for each axis", collect)
    .option("--noise <share>", "interference: of emulated runs (default: 0.05)")
    .option("--seed <n>", "interference: of the choice of pairs, and of emulated noise (default: 1)")
    .addHelpText(
      "after",
      "\nPlans use the learned latencies: the typical run of late. p10, p50 and p90 are of the runs of 4 s, where a size has eight at least.\nSamples are requests that ran alone: in a batch of one, or again on idle time. Times in JSON are in µs, of --interference in ms.",
    )
    .action(async (model: string | undefined, options) =>
      (await import("./commands/profile.ts")).profileOrInterference(model, options),
    );
}

function addRecord(program: Command): void {
  toCluster(program.command("record"))
    .description(
      "write down requests as they pass (when, which model and application, how large) until Ctrl-C, with a scenario of them beside it",
    )
    .requiredOption("--out <trace.jsonl>", "the file, which must not be there yet; `tutti simulate` replays it")
    .option("--seconds <n>", "stop after so long")
    .option("--models <names>", "only these models, separated by commas")
    .option("--payloads", "keep the inputs as well, in base64")
    .action(async (options) => (await import("./commands/record.ts")).record(options));
}

function addScenario(program: Command): void {
  toCluster(program.command("scenario"))
    .description(
      "print a scenario of a running cluster: its models with their learned latencies, SLOs, rates, burstiness, accelerators, delays and noise",
    )
    .requiredOption("--live", "of the cluster as it is now; `tutti record` writes one beside a recording")
    .option("--seconds <n>", "listen to its requests for so long", "10")
    .option("--trace <trace.jsonl>", "with the requests of this recording instead")
    .action(async (options) => (await import("./commands/scenario.ts")).scenario(options));
}

function addSimulate(program: Command): void {
  inRun(program.command("simulate <scenario.yaml>"))
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
  inRun(program.command("compare [scenario.yaml]"))
    .description("run the same arrivals under several policies; or the default policy on random mixes of models")
    .option("--policies <a,b,c>", "which, separated by commas", "default,deferred,eager")
    .option("--goodput", "find each one's goodput too: the highest rate with at most 1 % bad for every model")
    .option("--random <n>", "instead of a scenario: so many random mixes, from --seed on (1000), by goodput")
    .option("--parts", "random: mixes of models that leave part of an accelerator idle")
    .option(
      "--rivals <a,b,c>",
      "random: the policies among which the best rival is looked for (default: twelve; with --parts five)",
    )
    .option("--html <out.html>", "draw them side by side: a page that needs nothing else")
    .option("--json", "print JSON")
    .addHelpText("after", SCENARIOS)
    .action(async (path: string | undefined, options) => {
      if (options.random === undefined) return (await import("./commands/compare.ts")).compare(path, options);
      return (await import("./commands/compare-random.ts")).compareRandom(path, options);
    });
}

const SCENARIOS = `
Scenario files are described in docs/simulator.md; test/bench/scenarios has those of the papers.`;

/** Adds the options that override values of a scenario file. */
const inScenario = (command: Command): Command =>
  command
    .option("--rate <r/s>", "requests per second of all models together")
    .option("--seed <n>", "equal seeds, equal results")
    .option("--gpus <n>", "accelerators")
    .option("--duration <seconds>", "of arrivals, warm-up included")
    .option("--gather <how>", "target or head")
    .option("--prefer <what>", "latency or accelerators: what the default policy waits for")
    .option("--set <axis=value>", "choose on an axis of a family of scenarios; again for each axis", collect);

const inRun = (command: Command): Command =>
  inScenario(command).option("--load <n>", "in place of --rate: work relative to all accelerators, such as 1.3");

function addRecordNoise(program: Command): void {
  program
    .command("record-noise <file.jsonl>")
    .description(
      "write down how this machine disturbs what runs on it, for `noise` of a scenario; keeps two cores busy without --light",
    )
    .option("--seconds <n>", "for so long", "60")
    .option(
      "--light",
      "nap instead, so that it can run beside what is served: it then sees standstills and no slow work",
    )
    .action(async (path: string, options) => (await import("./commands/record-noise.ts")).recordNoise(path, options));
}

function addGoodput(program: Command): void {
  toCluster(inScenario(program.command("goodput [scenario.yaml]")))
    .description(
      "find the highest rate at which every model has at most 1 % bad requests; of a scenario, or of one model",
    )
    .option("--model <name>", "this one instead of a scenario, with the latencies that the cluster has learned")
    .option("--slo <duration>", "model: from arrival to answer, such as 40ms (default: its own)")
    .option("--profile <file>", "model: latencies given instead, without any cluster: { 1: 6ms, 8: 12ms }")
    .option("--policy <policy>", "instead of the scenario's: default, deferred, eager, timeout:5ms, nexus:8, ...")
    .option("--seeds <n>", "so many seeds from the scenario's on: the mean of their goodputs", "1")
    .option("--precision <percent>", "the search ends when a bad rate is so much above a good one (default: 1)")
    .option("--min-gpus", "find the fewest accelerators for the scenario's rate, or that of --rate, instead")
    .option("--workers <n>", "threads (default: one per core)")
    .addHelpText(
      "after",
      `${SCENARIOS}\nArrivals of --model are Poisson, and its accelerators those of the cluster unless --gpus says otherwise. Trials have at least 20 s of arrivals after the warm-up, unless --duration says otherwise.`,
    )
    .action(async (path: string | undefined, options) =>
      (await import("./commands/goodput.ts")).goodput(path, options),
    );
}

function addFigures(program: Command): void {
  program
    .command("figures")
    .description("redraw the papers' figures from our own simulations, with a table of the papers' numbers beside ours")
    .requiredOption("--out <folder>", "for the pictures, results.html, results.md and results.json")
    .option("--only <names>", "only these, separated by commas (a wrong name lists them)")
    .option("--dynamic", "those of models whose running time depends on the request, instead of those of static ones")
    .option("--quick", "few points and short runs: shows in minutes what the figures look like")
    .option("--resume", "keep the figures that the folder has, and draw the others")
    .option("--scenarios <folder>", "(default: test/bench/scenarios)")
    .option("--workers <n>", "threads (default: one per core)")
    .action(async (options) => (await import("./commands/figures.ts")).figures(options));
}

const collect = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];
