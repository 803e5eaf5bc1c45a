import type { Instant, Micros } from "@tutti/units";
import type { EchoAnswer } from "../fixtures/actor-cluster/echo-model.ts";
import type { Incarnation } from "../fixtures/actor-cluster/process.ts";
import type { ProcessWatcher } from "../fixtures/actor-cluster/processes.ts";
import type { Kind } from "./kinds.ts";

/** One request as its publisher sees it. */
export interface Asked {
  /** The id is also the value that its answer must echo. */
  readonly id: number;
  readonly model: string;
  readonly at: Instant;
  /** Time until its last deadline. */
  readonly slo: Micros;
  readonly kind: Kind;
  readonly reply: string;
  readonly outcomes: Outcome[];
  /** The ingress that got it; undefined before. */
  acceptedBy: Incarnation | undefined;
  acceptedAt: Instant;
  /** Time beyond its SLO that it has, since its ingress was shown its model as parked. */
  coldStart: Micros;
}
export interface Outcome extends EchoAnswer {
  readonly at: Instant;
}

/** Everything that a cluster shows its checkers, in true time. */
export interface Watcher extends Required<ProcessWatcher> {
  onAsked(asked: Asked): void;
  onPublishersBack(): void;
  onOutcome(asked: Asked, outcome: Outcome): void;
  onRun(actor: Incarnation, gpu: number, batchSize: number): void;
  onRan(actor: Incarnation, gpu: number): void;
  /** An accelerator holds so many bytes of models, copies that are under way included. */
  onHeld(actor: Incarnation, gpu: number, bytes: number, most: number): void;
  onLogged(actor: Incarnation, level: string, fields: unknown, text: string | undefined): void;
}
