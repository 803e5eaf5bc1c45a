/** The flags of `tutti up`, checked before anything starts. */
import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import { isName } from "@tutti/protocol";
import { GPUS_MAX, type Micros } from "@tutti/units";
import { usageError } from "../failure.ts";
import {
  DATA_PLANES,
  GATHERS,
  LOG_LEVELS,
  PROVIDERS,
  oneOf,
  parsePatience,
  parseRehearsal,
  parsePolicy,
  parsePort,
} from "../role/role-options.ts";

/** As commander gives them: texts. */
export interface UpFlags {
  readonly port?: string;
  readonly nats?: string;
  readonly creds?: string;
  readonly tlsCa?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly executors?: string;
  readonly ingresses?: string;
  readonly batchers?: string;
  readonly rankers?: string;
  readonly emulatedExecutors?: string;
  readonly emulate?: string;
  readonly gpus: string;
  readonly models?: string;
  readonly demo: boolean;
  readonly policy: string;
  readonly gather: string;
  readonly patience?: string;
  readonly provider: string;
  readonly dataPlane: string;
  readonly httpPort: string;
  readonly apps?: string;
  readonly rehearsal?: string;
  readonly otlp?: string;
  readonly logLevel: string;
  readonly onceReady?: string;
  readonly json?: boolean;
}

export interface UpOptions {
  /** Undefined: 4222 where it is free, else any. */
  readonly port: number | undefined;
  /** Servers to use instead of starting one. */
  readonly nats: string | undefined;
  readonly creds: string | undefined;
  /** Paths; a server that is started, and the ingress, show the certificate. */
  readonly tls:
    { readonly ca: string; readonly cert: string | undefined; readonly key: string | undefined } | undefined;
  /** Applications that get credentials; with any, requests without credentials are not taken. */
  readonly apps: readonly string[];
  readonly executors: number;
  readonly ingresses: number;
  readonly batchers: number;
  readonly rankers: number;
  /** Beside the real ones: they take the time that a model's own `latencies` say, and echo what they get. */
  readonly emulatedExecutors: number;
  readonly emulate: string | undefined;
  readonly emulatedGpus: number;
  readonly models: string | undefined;
  readonly demo: boolean;
  readonly onceReady: string | undefined;
  readonly json: boolean;
  readonly policy: string;
  readonly gather: string;
  readonly patience: string | undefined;
  readonly provider: string;
  readonly dataPlane: string;
  readonly httpPort: string;
  readonly rehearsal: Micros;
  readonly otlp: string | undefined;
  readonly logLevel: string;
}

/** Processes of one role on one machine. */
const ROLE_MAX = 16;

/** @throws {CommandError} naming the flag and what it takes */
export function parseUpOptions(flags: UpFlags): UpOptions {
  // Checked here, where a mistake is one message, and not by eight children.
  parsePolicy(flags.policy);
  parsePatience(flags.patience);
  if (flags.creds !== undefined && flags.nats === undefined) throw usageError("--creds goes with --nats");
  if (flags.port !== undefined && flags.nats !== undefined)
    throw usageError("--port is for a server that is started, --nats for one that runs");
  return {
    port: flags.port === undefined ? undefined : parsePort("port", flags.port),
    nats: flags.nats,
    creds: flags.creds,
    tls: tlsOf(flags),
    apps: appsOf(flags.apps),
    executors: countOf("executors", flags.executors ?? String(executorsOf(flags.emulate)), 256),
    ingresses: countOf("ingresses", flags.ingresses ?? "1", ROLE_MAX),
    batchers: countOf("batchers", flags.batchers ?? "1", ROLE_MAX),
    rankers: countOf("rankers", flags.rankers ?? "2", ROLE_MAX),
    emulatedExecutors:
      flags.emulatedExecutors === undefined ? 0 : countOf("emulated-executors", flags.emulatedExecutors, 256),
    emulate: flags.emulate,
    emulatedGpus: countOf("gpus", flags.gpus, GPUS_MAX),
    models: flags.models,
    demo: flags.demo && flags.emulate === undefined,
    onceReady: flags.onceReady,
    json: flags.json === true,
    policy: flags.policy,
    gather: oneOf("gather", GATHERS, flags.gather),
    patience: flags.patience,
    provider: oneOf("provider", PROVIDERS, flags.provider),
    dataPlane: oneOf("data-plane", DATA_PLANES, flags.dataPlane),
    httpPort: String(parsePort("http-port", flags.httpPort)),
    rehearsal: parseRehearsal(flags.rehearsal),
    otlp: flags.otlp,
    logLevel: oneOf("log-level", LOG_LEVELS, flags.logLevel),
  };
}

function tlsOf({ tlsCa, tlsCert, tlsKey, nats }: UpFlags): UpOptions["tls"] {
  if ((tlsCert === undefined) !== (tlsKey === undefined)) throw usageError("--tls-cert and --tls-key go together");
  if (tlsCa === undefined) {
    if (tlsCert !== undefined) throw usageError("--tls-cert needs --tls-ca: the authority that has signed it");
    return undefined;
  }
  if (tlsCert === undefined && nats === undefined)
    throw usageError("--tls-ca: the NATS server that is started needs --tls-cert and --tls-key");
  return { ca: resolve(tlsCa), cert: tlsCert && resolve(tlsCert), key: tlsKey && resolve(tlsKey) };
}

/** Emulated accelerators need no process each; with several, one can be drained or restarted while the others serve. */
const executorsOf = (emulate: string | undefined): number =>
  emulate === undefined ? Math.max(1, availableParallelism() - 1) : 1;

function appsOf(text: string | undefined): string[] {
  const apps = text === undefined ? [] : text.split(",").map((app) => app.trim());
  const bad = apps.find((app) => !isName(app));
  if (bad === undefined) return apps;
  throw usageError(`--apps: "${bad}" is no name of an application: letters, digits, "-" and "_" only`);
}

function countOf(flag: string, text: string, max: number): number {
  const count = Number(text);
  if (Number.isInteger(count) && count >= 1 && count <= max) return count;
  throw usageError(`--${flag} ${text}: a number from 1 to ${max}`);
}
