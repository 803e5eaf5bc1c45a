/** The flags of the roles, with their values and help texts. */
import { ROLES, type Role } from "@tutti/protocol";
import { type OptionSpec, optionLines } from "../options/option-spec.ts";

export const LOOPBACK = "127.0.0.1";

export const PROVIDERS = ["cpu", "webgpu", "cuda"] as const;
export const ENGINES = ["onnx", "emulated"] as const;
export const GATHERS = ["target", "head"] as const;
export const PREFERENCES = ["latency", "accelerators"] as const;
export const LATENCIES = ["hints", "distributions", "means"] as const;
export const DATA_PLANES = ["tcp", "nats"] as const;
export const REPLY_SCOPES = ["app", "any"] as const;
export const LOG_LEVELS = ["debug", "info", "warn", "error", "silent"] as const;

export interface Flag extends OptionSpec {
  readonly roles: readonly Role[];
}

const EVERY: readonly Role[] = ROLES;

/** The flags in the order in which `tutti run <role> --help` prints them. */
export const FLAGS: readonly Flag[] = [
  {
    name: "nats",
    value: "url[,url]",
    roles: EVERY,
    text: "servers of the cluster",
    default: "nats://127.0.0.1:4222",
  },
  { name: "creds", value: "file", roles: EVERY, text: "credentials of this role" },
  {
    name: "answers-creds",
    value: "file",
    roles: ["ingress"],
    text: "credentials of a connection for answers, whose user may publish to applications' inboxes only",
    otherwise: "answers go out with --creds",
  },
  {
    name: "tls-ca",
    value: "file",
    roles: EVERY,
    text: "speak TLS, with peers whose certificates this authority has signed",
  },
  {
    name: "tls-cert",
    value: "file",
    roles: ["ingress"],
    text: "certificate that executors are shown, with the name of --data-host",
  },
  { name: "tls-key", value: "file", roles: ["ingress"], text: "its key" },
  { name: "cluster", value: "name", roles: EVERY, text: "which cluster to join", default: "main" },
  {
    name: "sub-cluster",
    value: "name",
    roles: ["ranker", "executor"],
    text: "of a ranker, which it leads or spares; of an executor, as long as the planner has not placed it",
    default: "main",
  },
  { name: "host", value: "name", roles: EVERY, text: "how heartbeats call this host", otherwise: "its hostname" },
  { name: "gpus", value: "0,2-4", roles: ["executor"], text: "accelerator ids that this process drives", default: "0" },
  { name: "engine", value: ENGINES.join("|"), roles: ["executor"], text: "what runs batches", default: "onnx" },
  {
    name: "provider",
    value: PROVIDERS.join("|"),
    roles: ["executor"],
    text: "execution provider of onnxruntime",
    default: "cpu",
  },
  {
    name: "device",
    value: "n",
    roles: ["executor"],
    text: "with --provider cuda: which of this host's GPUs, as nvidia-smi counts them",
    default: "0",
  },
  {
    name: "accelerator-type",
    value: "name",
    roles: ["executor"],
    text: "tells accelerators of unlike speed apart: each name has latencies of its own",
    otherwise: "with --provider cuda the GPU's, by nvidia-smi",
  },
  {
    name: "jitter",
    value: "spread[:seed]",
    roles: ["executor"],
    text: "emulated runs take latency × (1 ± spread)",
    default: "0",
  },
  {
    name: "memory",
    value: "4GB",
    roles: ["executor"],
    text: "for the weights of its models together, on each accelerator; what doesn't fit is not loaded",
    otherwise: "unbounded",
  },
  { name: "threads", value: "n", roles: ["executor"], text: "of a run on a CPU", default: "1" },
  {
    name: "part",
    value: "percent",
    roles: ["executor"],
    text: "how much of the accelerator it has, by its cores or by CUDA MPS, as `tutti split` starts it; emulated ones take as much longer",
    default: "100",
  },
  {
    name: "state",
    value: "folder",
    roles: ["executor"],
    text: "notes which model it runs, so that one which ends its process is known; outlives the process",
    otherwise: "a folder of the user's in the system's temporary one",
  },
  {
    name: "policy",
    value: "adaptive|deferred|eager|timeout:5ms|latest|beta-lambda",
    roles: ["batcher"],
    text: "when batches start; adaptive is deferred, and earlier where arrivals are bursty",
    default: "adaptive",
  },
  {
    name: "prefer",
    value: PREFERENCES.join("|"),
    roles: ["batcher"],
    text: "what the adaptive policy waits for: no longer than saves accelerator time that is lacking, or also to leave accelerators idle",
    default: "latency",
  },
  {
    name: "latency",
    value: LATENCIES.join("|"),
    roles: ["batcher"],
    text: "what is planned with where running times depend on the input; the last two are for comparisons; hints are distributions where there are none",
    default: "hints",
  },
  { name: "gather", value: GATHERS.join("|"), roles: ["batcher"], text: "how batches are gathered", default: "target" },
  {
    name: "patience",
    value: "0..1",
    roles: ["batcher"],
    text: "overrides every model's patience: 0 is lowest latency, 1 largest batches",
  },
  {
    name: "data-plane",
    value: DATA_PLANES.join("|"),
    roles: ["ingress", "executor"],
    text: "how inputs reach executors; tcp only where it connects",
    default: "tcp",
  },
  {
    name: "data-host",
    value: "address",
    roles: ["ingress"],
    text: "address that executors connect to",
    default: "127.0.0.1",
  },
  {
    name: "reply-scope",
    value: REPLY_SCOPES.join("|"),
    roles: ["ingress", "jobs"],
    text: "answers go below _INBOX.<app> only, or for development below any _INBOX",
    default: "app",
  },
  {
    name: "warmup",
    value: "duration",
    roles: ["ingress"],
    text: "how long to warm up with requests of its own at the start, or until the first of a publisher; 0 for none",
    default: "4s",
  },
  {
    name: "pipelines",
    value: "folder",
    roles: ["ingress"],
    text: "serve the pipelines that its *.yaml files declare; their functions are loaded from there and run with the ingress' rights",
  },
  {
    name: "await-models",
    value: "names",
    roles: ["gateway"],
    text: "models without which it says that it is not ready: mlp,ctr",
    otherwise: "those that the cluster was asked to serve so far",
  },
  {
    name: "http-port",
    value: "port",
    roles: ["gateway"],
    text: "of the Open Inference Protocol over HTTP, 0 for any",
    otherwise: "8000 where it is free, else any",
  },
  {
    name: "grpc-port",
    value: "port",
    roles: ["gateway"],
    text: "of the Open Inference Protocol over gRPC, 0 for any",
    otherwise: "8001 where it is free, else any",
  },
  {
    name: "metrics-port",
    value: "port",
    roles: ["gateway"],
    text: "of /metrics for Prometheus, 0 for any",
    otherwise: "8002 where it is free, else any",
  },
  {
    name: "http-host",
    value: "address",
    roles: ["gateway"],
    text: "address of HTTP and gRPC; beyond loopback with --api-keys or --jwks",
    default: "127.0.0.1",
  },
  {
    name: "http-tls-cert",
    value: "file",
    roles: ["gateway"],
    text: "HTTP and gRPC speak TLS, with this certificate; a renewed one is taken within seconds",
  },
  { name: "http-tls-key", value: "file", roles: ["gateway"], text: "its key" },
  {
    name: "api-keys",
    value: "file",
    roles: ["gateway"],
    text: "who asks needs one of these keys, which `tutti auth key` makes",
    otherwise: "on loopback nobody needs one",
  },
  {
    name: "jwks",
    value: "file-or-url",
    roles: ["gateway"],
    text: "who asks needs a key, or a token that one of these has signed, with its application in the claim app",
  },
  { name: "jwt-issuer", value: "text", roles: ["gateway"], text: "of tokens", otherwise: "whoever signs them" },
  {
    name: "jwt-audience",
    value: "text",
    roles: ["gateway"],
    text: "of tokens; those for others are refused",
    otherwise: "tutti",
  },
  {
    name: "insecure-no-auth",
    value: undefined,
    roles: ["gateway"],
    text: "whoever reaches --http-host may ask in any application's name",
  },
  {
    name: "metrics-host",
    value: "address",
    roles: ["gateway"],
    text: "address of /metrics and /scaling, for Prometheus and autoscalers",
    default: "127.0.0.1",
  },
  {
    name: "allowed-hosts",
    value: "names",
    roles: ["gateway"],
    text: "names by which browsers may reach HTTP and metrics, beside localhost and addresses: tutti.example.org",
    otherwise: "none on loopback, any elsewhere",
  },
  {
    name: "system-shared-memory",
    value: undefined,
    roles: ["gateway"],
    text: "clients may pass tensors in /dev/shm, in files of their own user; on loopback only",
    otherwise: "they may not",
  },
  {
    name: "admin-token",
    value: "file",
    roles: ["gateway"],
    text: "clients with this token may load and unload models over HTTP and gRPC, and restart actors from the console",
    otherwise: "nobody may",
  },
  {
    name: "repository-creds",
    value: "file",
    roles: ["gateway"],
    text: "credentials that may change models, such as the operator's: a gateway's own may not",
  },
  {
    name: "trace-query",
    value: "url",
    roles: ["gateway"],
    text: "a Jaeger's address, such as http://127.0.0.1:16686, where the console asks for traces",
    otherwise: "nowhere",
  },
  {
    name: "epoch",
    value: "duration",
    roles: ["planner"],
    text: "how often loads are balanced, and a third of it how often advice on scaling is given",
    default: "30s",
  },
  {
    name: "budget-share",
    value: "0..1",
    roles: ["planner"],
    text: "of all models' memory, what may be loaded and unloaded in an epoch only to balance loads",
    default: "0.1",
  },
  {
    name: "sub-clusters-min",
    value: "n",
    roles: ["planner"],
    text: "sub-clusters that are used whatever that costs, of those that have rankers; more only where rankers or memory need them, or dividing costs little",
    default: "1",
  },
  {
    name: "agent-creds",
    value: "file",
    roles: EVERY,
    text: "of `tutti run`: credentials of the user agent, through which operators restart and drain this process",
  },
  { name: "log-level", value: LOG_LEVELS.join("|"), roles: EVERY, text: "of the log", default: "info" },
  {
    name: "otlp",
    value: "url",
    roles: EVERY,
    text: "where traces go, such as http://127.0.0.1:4318",
    otherwise: "nowhere",
  },
  {
    name: "health",
    value: "[host:]port",
    roles: EVERY,
    text: "answer GET /live and GET /ready there, for the probes of Docker or Kubernetes",
    otherwise: "nowhere",
  },
];

export function roleHelp(roles: Role | readonly Role[]): string {
  return optionLines([FILE_OPTION, ...flagsOf(roles)]);
}

/** The flags of one role, or of a process that hosts several. */
export function flagsOf(roles: Role | readonly Role[]): Flag[] {
  const hosted = [roles].flat();
  return FLAGS.filter((flag) => hosted.some((role) => flag.roles.includes(role)));
}

/** The flag that names the file of all others, for `tutti run` and `tutti up`. */
export const FILE_OPTION = {
  name: "file",
  short: "f",
  value: "tutti.yaml",
  text: "a file of options, for those that neither a flag nor the environment sets",
  noVariable: "it is named where it is used",
} as const satisfies OptionSpec;
