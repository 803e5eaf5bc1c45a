import type { EchoAnswer } from "./echo-model.ts";
import type { PortWatcher } from "./ports.ts";
import type { CrashWatcher, Incarnation } from "./process.ts";
import type { BatchDispatched, PulledItem } from "@tutti/protocol";
import type { DataHandlers } from "@tutti/ports/pull";
import type { ActorKey, Instant, Micros } from "@tutti/units";

/** One request as its publisher sees it. */
export interface Asked {
  /** The id is also the value that its answer must echo. */
  readonly id: number;
  readonly model: string;
  readonly at: Instant;
  readonly slo: Micros;
  readonly reply: string;
  readonly outcomes: Outcome[];
  /** The ingress that got it; undefined before. */
  acceptedBy: Incarnation | undefined;
  acceptedAt: Instant;
}
export interface Outcome extends EchoAnswer {
  readonly at: Instant;
}

/** Everything that a cluster shows its checkers, in true time. */
export interface Watcher extends PortWatcher, CrashWatcher {
  onStarted(actor: Incarnation): void;
  onEnded(actor: Incarnation): void;
  onAsked(asked: Asked): void;
  onPublishersBack(): void;
  onOutcome(asked: Asked, outcome: Outcome): void;
  onDelivered(hop: { from: string; to: string; subject: string; bytes: number }): void;
  /** An ingress sends a batch of its own process' batcher with its rows. */
  onCarried(actor: Incarnation, batch: BatchDispatched, batcher: ActorKey, items: readonly PulledItem[]): void;
  /** Wraps the handlers, so that the checkers see the rows that an ingress hands out. */
  watchRows(actor: Incarnation, handlers: DataHandlers): DataHandlers;
  onRun(actor: Incarnation, gpu: number, batchSize: number): void;
  onRan(actor: Incarnation, gpu: number): void;
  onLogged(actor: Incarnation, level: string, fields: unknown, text: string | undefined): void;
}
