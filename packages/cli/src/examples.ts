/** Examples that `--help` shows for each command after its options. A test parses every one of them. */
import type { Command } from "commander";

/**
 * Examples by command; commands whose help has its own examples (`tutti bench`) are absent. The text after two spaces
 * says what the example does.
 */
const EXAMPLES: Readonly<Record<string, readonly string[]>> = {
  up: [
    "tutti up                                            the demo models, on this machine's processors",
    "tutti up --models ./models --no-demo --executors 2  your own: models/<name>/1/model.onnx",
    "tutti up --emulate profiles.yaml --gpus 8           emulated models and accelerators",
    "tutti up -f tutti.yaml                              with the options of a file: see tutti config print",
    "tutti up --jaeger                                   with every request's trace to look at",
  ],
  run: [
    "tutti run ingress --nats nats://10.0.0.1:4222 --creds creds/ingress.nk --answers-creds creds/answers.nk --data-host 10.0.0.2",
    "tutti run node -f tutti.yaml                        all roles but executor, with the options of a file",
    "tutti run executor --provider cuda --gpus 0         one accelerator of this host",
  ],
  infer: [
    "tutti infer mlp                                     random numbers of the declared shapes",
    "tutti infer ocr --input scan.png --slo 500ms        a picture through a pipeline",
    "tutti infer mlp --slo 20ms --json                   for a program",
  ],
  load: [
    "tutti load model.onnx --slo 30ms --max-batch 16",
    "tutti load ./models                                 every model of a folder",
    "tutti load s3://models/mlp/1/model.onnx             from a bucket; https:// and oci:// as well",
    "tutti load new.onnx --name mlp --version 2          beside what is served: see tutti rollout",
  ],
  unload: ["tutti unload mlp", "tutti unload mlp/2                                  one version of it"],
  rollout: [
    "tutti rollout mlp                                   what each version gets and makes of it",
    "tutti rollout mlp --to 2 --percent 10               a tenth of the requests to version 2",
    "tutti rollout mlp --to 2 --percent 100 --over 10m --max-bad 1%",
    "tutti rollout mlp --shadow 2                        run copies on version 2 and compare the answers",
    "tutti rollout mlp --back                            as it was before, at once",
    "tutti rollout mlp --default 2",
  ],
  models: [
    "tutti models                                        with the state of each, and why",
    "tutti models --release loop                         take one out of quarantine",
  ],
  pipelines: ["tutti pipelines ./pipelines --fan-out recognise=8"],
  profile: ["tutti profile mlp", "tutti profile loop --html loop.html                 its distributions, drawn"],
  jobs: ["tutti jobs", "tutti jobs --json                                   for a program"],
  "jobs submit": [
    "tutti jobs submit ./pictures --model ocr --out ./texts",
    "tutti jobs submit list.txt --model mlp --out ./results --deadline 2h --detach",
  ],
  "jobs dead": ["tutti jobs dead --model mlp", "tutti jobs dead --requeue", "tutti jobs dead --id picture-17 --remove"],
  drain: ["tutti drain executor-1"],
  undrain: ["tutti undrain executor-1"],
  logs: [
    "tutti logs ranker                                   the last five minutes of every ranker",
    "tutti logs all --follow --since 30s",
  ],
  refusals: [
    "tutti refusals                                      the last 20, of all models",
    "tutti refusals mlp --cause overloaded --since 5m",
    "tutti refusals --request order-17                   why this one was refused",
  ],
  status: ["tutti status", "tutti status --once --json                          for a program"],
  top: ["tutti top --once"],
  actors: ["tutti actors", "tutti actors --wait 5 --json"],
  simulate: [
    "tutti simulate test/bench/scenarios/two-slo-classes.yaml --seed 2",
    "tutti simulate scenario.yaml --explain 17           the story of one request",
  ],
  compare: ["tutti compare scenario.yaml --policies default,eager,nexus:8 --html compare.html"],
  goodput: [
    "tutti goodput scenario.yaml --policy deferred --seeds 3",
    "tutti goodput scenario.yaml --min-gpus --rate 5000",
  ],
  figures: ["tutti figures --out figures --quick"],
  plan: ["tutti plan --live                                   of the cluster that runs here"],
  "plan subclusters": ["tutti plan subclusters input.yaml --explain"],
  "plan pack": ["tutti plan pack input.yaml --html plan.html"],
  "plan fractions": ["tutti plan fractions input.yaml --explain"],
  "plan query": ["tutti plan query input.yaml --json"],
  "plan scale": ["tutti plan scale forecast.yaml --workers 2"],
  record: ["tutti record --out hour.jsonl --seconds 3600 --models resnet50"],
  scenario: ["tutti scenario --live --seconds 30                     print it: add > today.yaml"],
  "record-noise": ["tutti record-noise noise.jsonl --seconds 60"],
  auth: ["tutti auth init --app camera --tls                  keys, certificates and a server's configuration"],
  "auth init": [
    "tutti auth init --app camera shop --tls",
    "tutti auth init --jwt --expires 30d --nats-cluster 3 --host 10.0.0.1,10.0.0.2,10.0.0.3",
  ],
  "auth add-app": ["tutti auth add-app shop"],
  "auth revoke": ["tutti auth revoke shop"],
  "auth renew": ["tutti auth renew shop --expires 30d"],
  "auth write": ["tutti auth write --dir tutti-auth"],
  "auth certificate": ["tutti auth certificate ingress-2 --hosts ingress-2.example,10.0.0.7"],
  "auth key": ["tutti auth key add shop"],
  "auth key add": [
    "tutti auth key add shop --expires 30d",
    "tutti auth key add operations --admin               for the repository, restarts and the console",
  ],
  "auth key list": ["tutti auth key list"],
  "auth key revoke": ["tutti auth key revoke 3f9c02a1b7de"],
  "auth quota": ["tutti auth quota shop --rate 200 --bytes 64MB", "tutti auth quota '*' --rate 50"],
  config: ["tutti config print -f tutti.yaml                    of tutti up"],
  "config print": [
    "tutti config print -f tutti.yaml --json             of tutti up",
    "tutti config print run executor -f tutti.yaml --gpus 1",
  ],
  version: [
    "tutti version                                       of all parts, and whether they fit together",
    "tutti version --json                                for a program",
  ],
  doctor: [
    "tutti doctor                                        this machine, and the cluster that runs here",
    "tutti doctor --nats nats://10.0.0.1:4222 --creds creds/admin.nk",
    "tutti doctor --context prod --json                  as the nats command line calls its servers",
  ],
  completion: ["tutti completion bash"],
};

/** Adds the examples to the commands' help. Call it once all commands are registered. */
export function addExamples(program: Command): void {
  for (const [path, lines] of Object.entries(EXAMPLES)) {
    const command = commandAt(program, path.split(" "));
    command?.addHelpText(
      "after",
      `\n${lines.length > 1 ? "Examples" : "Example"}:\n${lines.map((line) => `  ${line}`).join("\n")}`,
    );
  }
}

const commandAt = (program: Command, path: readonly string[]): Command | undefined =>
  path.reduce<Command | undefined>((at, name) => at?.commands.find((child) => child.name() === name), program);

/** The command lines in a help text, without `tutti` and without their explanations. */
export const exampleLines = (help: string): string[][] =>
  help
    .split("\n")
    .map((line) => /^ {2}tutti (\S.*)$/.exec(line)?.[1])
    .filter((line) => line !== undefined)
    .map((line) => line.split(/ {2,}/)[0]!.trim().split(" "));
