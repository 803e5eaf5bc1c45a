import type { EchoAnswer } from "./echo-model.ts";
import type { Host, HostWatcher, Pull } from "./host.ts";
import type { DataHandlers } from "@tutti/pull";
import type { Instant, Micros } from "@tutti/units";

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
  acceptedBy: Host | undefined;
  acceptedAt: Instant;
}
export interface Outcome extends EchoAnswer {
  readonly at: Instant;
}

/** All that a cluster lets its checkers see, in true time. */
export interface Watcher extends HostWatcher {
  onStarted(host: Host): void;
  onEnded(host: Host): void;
  onAsked(asked: Asked): void;
  onPublishersBack(): void;
  onOutcome(asked: Asked, outcome: Outcome): void;
  onDelivered(hop: { from: string; to: string; subject: string; bytes: number }): void;
  /** An executor asks for the inputs of a batch that it has accepted. */
  onPull(host: Host, pull: Pull): void;
  /** Lets the rows be seen that an ingress hands out. */
  watchRows(host: Host, handlers: DataHandlers): DataHandlers;
  onRun(host: Host, gpu: number, batchSize: number): void;
  onRan(host: Host, gpu: number): void;
  onLogged(host: Host, level: string, fields: unknown, text: string | undefined): void;
}
