/** An attack: something done to a system from outside that must not succeed, while all other clients are served. */
import type { TuttiUp } from "../e2e/tutti-up.ts";
import type { WitnessReport } from "./witness.ts";

/**
 * The attacked systems. `open`: on loopback, where no credentials are needed; `descriptors`: the same with 256 of them;
 * `credentials`: applications `a` and `b` with credentials of `tutti auth`, and with API keys at the gateway;
 * `tenants`: the same with all models, and with a probe of the event loop.
 */
export const SYSTEMS = ["open", "descriptors", "credentials", "tenants"] as const;
export type SystemKind = (typeof SYSTEMS)[number];

/** `long`: the numbers of a determined attacker; `short`: numbers that show the same within seconds. */
export type Size = "short" | "long";

export interface AttackedSystem {
  readonly up: TuttiUp;
  /** URL, `host:port`, URL, URL. */
  readonly http: string;
  readonly grpc: string;
  readonly metrics: string;
  readonly nats: string;
  /** Process of the gateway, the ingress and whatever else requests pass. */
  readonly pid: number;
  /** Token that permits loading models. */
  readonly adminToken: string;
  /** API keys of `a`, `b` and an administrator; undefined where the gateway asks for none. */
  readonly keys: ApiKeys | undefined;
  readonly tenants?: Tenants | undefined;
  /** Text of a user's credentials. @throws {Error} the system has none */
  credentialsOf(user: string): string;
  stop(): Promise<void>;
}

/** Known of the system `tenants` alone. */
export interface Tenants {
  readonly serverPid: number;
  /** File of turn-probe.ts. */
  readonly turnsFile: string;
}

export interface ApiKeys {
  readonly a: string;
  readonly b: string;
  readonly admin: string;
}

export interface Scene extends AttackedSystem {
  readonly size: Size;
  of(short: number, long: number): number;
}

export interface Attack {
  readonly name: string;
  readonly what: string;
  readonly system: SystemKind;
  /** Bytes by which the process may grow while it is attacked. Default: MEMORY_BYTES. */
  readonly memoryBytes?: number;
  /** @returns the attack's successes, a sentence each; none: the system withstood it */
  readonly run: (scene: Scene) => Promise<readonly string[]>;
}

export interface AttackResult {
  readonly name: string;
  readonly what: string;
  readonly system: SystemKind;
  /** Successes of the attack; empty: the system held. */
  readonly broken: readonly string[];
  readonly seconds: number;
  readonly witness: WitnessReport | undefined;
}

/**
 * Most that a gateway holds of bodies (512 MB), and half as much again. The latter is for memory that the runtime has
 * not freed yet.
 */
export const MEMORY_BYTES = 805_306_368;

const SHOWN = 3;

/** One line about the attack's successes, of which the first few are spelled out. */
export function brokenText({ broken }: AttackResult): string {
  const more = broken.length > SHOWN ? [`and ${broken.length - SHOWN} more`] : [];
  return [...broken.slice(0, SHOWN), ...more].join("; ");
}
