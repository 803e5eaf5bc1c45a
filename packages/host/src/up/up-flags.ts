/** The options of `tutti up`. */
import type { OptionSpec } from "../options/option-spec.ts";
import { type OptionInForce, type Said, optionsInForce, valuesOf } from "../options/options-in-force.ts";
import { DATA_PLANES, GATHERS, LATENCIES, LOG_LEVELS, LOOPBACK, PREFERENCES, PROVIDERS } from "../role/role-flags.ts";
import type { UpFlags } from "./up-options.ts";

/** One process for all roles but executors, or one a role. */
export const LAYOUTS = ["node", "spread"] as const;

/** `tutti up` starts a cluster of its own unless it is told otherwise on its command line or in its file. */
const OTHERS = "it names the cluster of other commands";

/** The options in the order in which `tutti up --help` prints them. */
export const UP_OPTIONS: readonly OptionSpec[] = [
  {
    name: "layout",
    value: LAYOUTS.join("|"),
    text: "node: all roles but executors share a process; spread: one process a role",
    otherwise: "node",
  },
  {
    name: "nodes",
    value: "n",
    text: "nodes on this machine, of which any may end: each is a hot standby of the others",
    otherwise: "1",
  },
  { name: "ingresses", value: "n", text: "ingress processes of the layout spread", otherwise: "1" },
  { name: "batchers", value: "n", text: "batcher processes", otherwise: "1" },
  { name: "rankers", value: "n", text: "ranker processes of each sub-cluster, of which one leads", otherwise: "2" },
  {
    name: "http-host",
    value: "address",
    text: "address of HTTP and gRPC; beyond loopback with --api-keys or --jwks",
    default: LOOPBACK,
  },
  { name: "http-tls-cert", value: "file", text: "HTTP and gRPC speak TLS, with this certificate," },
  { name: "http-tls-key", value: "file", text: "and its key" },
  { name: "api-keys", value: "file", text: "who asks over HTTP or gRPC needs one of these keys (`tutti auth key`)" },
  { name: "jwks", value: "file-or-url", text: "who asks needs a key, or a token that one of these has signed" },
  { name: "jwt-issuer", value: "text", text: "of tokens", otherwise: "whoever signs them" },
  { name: "jwt-audience", value: "text", text: "of tokens; those for others are refused", otherwise: "tutti" },
  { name: "insecure-no-auth", value: undefined, text: "whoever reaches --http-host may ask in any application's name" },
  {
    name: "system-shared-memory",
    value: undefined,
    text: "clients of this machine may pass tensors in /dev/shm, in files of their own user",
  },
  { name: "port", value: "port", text: "port of the NATS server", otherwise: "4222 if it is free, else any" },
  { name: "nats", noVariable: OTHERS, value: "urls", text: "use these servers instead of starting one" },
  {
    name: "creds",
    noVariable: OTHERS,
    value: "file",
    text: "credentials, with --nats: one file, or a folder with one for each role",
  },
  {
    name: "tls-ca",
    noVariable: OTHERS,
    value: "file",
    text: "TLS for every connection: the authority's certificate, and with it",
  },
  {
    name: "tls-cert",
    noVariable: OTHERS,
    value: "file",
    text: "the certificate of the NATS server and of the ingress,",
  },
  { name: "tls-key", noVariable: OTHERS, value: "file", text: "and its key (`tutti auth init --tls` makes all three)" },
  { name: "executors", value: "n", text: "executor processes", otherwise: "cores - 1 or GPUs; with --emulate 1" },
  {
    name: "cores",
    value: "n",
    text: "of each executor on a CPU: it is bound to them, and `tutti split` can split them",
    otherwise: "one thread each, on any",
  },
  {
    name: "autoscale",
    value: "min:max",
    text: "executor processes by the planner's advice, such as 1:4, one accelerator each",
  },
  {
    name: "divide",
    value: "input.yaml",
    isValueOptional: true,
    text: "run accelerators as two halves each while that carries more of the load; on halves models take as long as an input of `tutti plan fractions` says (with --emulate: as emulated)",
  },
  {
    name: "budget-share",
    value: "0..1",
    text: "of all models' memory, what may move in an epoch only to balance loads",
    default: "0.1",
  },
  {
    name: "epoch",
    value: "duration",
    text: "how often the planner balances loads; advice comes three times as often",
    default: "30s",
  },
  {
    name: "sub-clusters",
    value: "n",
    text: "parts that can be scheduled apart: main, s1, s2 …; the planner uses as few as rankers and memory need, and all where dividing costs less than a tenth",
    default: "1",
  },
  { name: "sub-clusters-min", value: "n", text: "of these, how many it uses whatever that costs", default: "1" },
  {
    name: "memory",
    value: "size",
    text: "of each accelerator, for the weights of its models, such as 4GB",
    otherwise: "unbounded",
  },
  {
    name: "emulated-executors",
    value: "n",
    text: "beside the real ones, for models with latencies in their configuration",
  },
  {
    name: "emulate",
    value: "profiles.yaml",
    text: "emulated models and accelerators: runs take the time that the profiles say",
  },
  {
    name: "gpus",
    value: "n",
    text: "emulated accelerators, with --emulate",
    otherwise: "8; with --autoscale one for each executor",
  },
  {
    name: "models",
    value: "folder-or-url",
    text: "load a model repository, a folder or s3://bucket/prefix: name/1/model.onnx and name/config.yaml, which says its slo",
  },
  {
    name: "models-poll",
    value: "duration",
    text: "look there so often, and take over what is new, changed or gone",
    otherwise: "30s for s3://, never for a folder",
  },
  {
    name: "pipelines",
    value: "folder",
    text: "serve the pipelines that its *.yaml files declare, instead of the demo's; their functions run in the ingress",
  },
  { name: "demo", value: undefined, text: "load the demo models", default: "true" },
  {
    name: "policy",
    value: "policy",
    text: "when batches start: adaptive, deferred, eager, timeout:5ms, latest, beta-lambda",
    default: "adaptive",
  },
  {
    name: "prefer",
    value: PREFERENCES.join("|"),
    text: "latency: no batch waits while accelerators are idle anyway; accelerators: as few as possible are in use",
    otherwise: "latency; accelerators with --autoscale",
  },
  { name: "gather", value: GATHERS.join("|"), text: "how batches are gathered", default: "target" },
  {
    name: "latency",
    value: LATENCIES.join("|"),
    text: "what is planned with where running times vary",
    default: "hints",
  },
  {
    name: "patience",
    value: "0..1",
    text: "for all models: 0 is lowest latency, 1 largest batches",
    otherwise: "each model's own",
  },
  { name: "provider", value: PROVIDERS.join("|"), text: "execution provider", default: "cpu" },
  {
    name: "accelerator-type",
    value: "name",
    text: "tells accelerators of unlike speed apart, such as those of this machine from another's: each name has latencies of its own",
    otherwise: "with --provider cuda each GPU's, by nvidia-smi",
  },
  { name: "data-plane", value: DATA_PLANES.join("|"), text: "how inputs reach executors", default: "tcp" },
  {
    name: "apps",
    value: "names",
    text: "give these applications credentials, and take requests with credentials only",
  },
  { name: "http-port", value: "port", text: "port of HTTP", otherwise: "8000 where it is free, else any" },
  { name: "grpc-port", value: "port", text: "port of gRPC", otherwise: "8001 where it is free, else any" },
  {
    name: "metrics-port",
    value: "port",
    text: "loopback port of /metrics",
    otherwise: "8002 where it is free, else any",
  },
  {
    name: "admin-token",
    value: "file",
    text: "clients with this token may load and unload models over HTTP and gRPC, and restart actors from the console",
  },
  {
    name: "warmup",
    value: "duration",
    text: "how long to warm up with requests of its own before it is ready",
    default: "4s",
  },
  { name: "otlp", value: "url", text: "export traces, such as to http://127.0.0.1:4318" },
  {
    name: "jaeger",
    noVariable: "TUTTI_JAEGER names the program",
    value: undefined,
    text: "run a Jaeger beside it, export traces to that, and print its address",
  },
  { name: "log-level", value: LOG_LEVELS.join("|"), text: "of the log files", default: "info" },
  {
    name: "once-ready",
    value: "command",
    text: "run this shell command when everything is served, then stop with its exit code",
  },
  { name: "json", value: undefined, text: "print JSON lines" },
];

/** The options of `tutti up` with their values and sources. */
export const upOptionsInForce = (said: Said): OptionInForce[] => optionsInForce(UP_OPTIONS, said);

/** The values under the names of `UpFlags`: `httpPort` of `http-port`. */
export function upFlagsOf(options: readonly OptionInForce[]): UpFlags {
  const values = valuesOf(options);
  const fields = UP_OPTIONS.flatMap(({ name, value, isValueOptional }): [string, string | boolean][] => {
    const said = values.get(name);
    if (value === undefined) return [[fieldOf(name), said !== undefined]];
    if (said === undefined || (isValueOptional && said === "false")) return [];
    return [[fieldOf(name), isValueOptional && said === "true" ? true : said]];
  });
  return Object.fromEntries(fields) as unknown as UpFlags;
}

/** `httpPort` of `http-port`, as commander calls it. */
export const fieldOf = (name: string): string =>
  name.replaceAll(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
