import type { EchoAnswer } from "./echo-model.ts";
import type { PortWatcher } from "./ports.ts";
import type { CrashWatcher, Incarnation } from "./process.ts";
import type { BatchDispatched, PulledItem } from "@tutti/protocol";
import type { DataHandlers } from "@tutti/ports/pull";
import type { ActorKey, Instant, Micros } from "@tutti/units";

/** One request as its publisher sees it. */
export interface Asked {
  /** Also the value that its answer must echo. */
  readonly id: number;
  readonly model: string;
  readonly at: Instant;
  readonly slo: Micros;
  readonly reply: string;
  readonly outcomes: Outcome[];
  /** The ingress that got it; undefined while nobody has. */
  acceptedBy: Incarnation | undefined;
  acceptedAt: Instant;
}
export interface Outcome extends EchoAnswer {
  readonly at: Instant;
}

/** All that a cluster lets its checkers see, in true time. */
export interface Watcher extends PortWatcher, CrashWatcher {
  onStarted(actor: Incarnation): void;
  onEnded(actor: Incarnation): void;
  onAsked(asked: Asked): void;
  onPublishersBack(): void;
  onOutcome(asked: Asked, outcome: Outcome): void;
  onDelivered(hop: { from: string; to: string; subject: string; bytes: number }): void;
  /** An ingress sends a batch of its own process' batcher with its rows. */
  onCarried(actor: Incarnation, batch: BatchDispatched, batcher: ActorKey, items: readonly PulledItem[]): void;
  /** Lets the rows be seen that an ingress hands out. */
  watchRows(actor: Incarnation, handlers: DataHandlers): DataHandlers;
  onRun(actor: Incarnation, gpu: number, batchSize: number): void;
  onRan(actor: Incarnation, gpu: number): void;
  onLogged(actor: Incarnation, level: string, fields: unknown, text: string | undefined): void;
}
