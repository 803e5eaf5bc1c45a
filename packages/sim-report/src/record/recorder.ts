/**
 * Records requests beside the ingresses, never in their place. It uses a plain subscription, which takes nothing from
 * the queue group.
 */
import type { Bus, Delivery, Subscription } from "@tutti/ports/bus";
import { HEADER, INFER_SUBJECT, SLO_US_MAX, inferSubject } from "@tutti/protocol";
import { parseDuration } from "@tutti/units";
import type { TraceLine } from "../scenarios/trace-file.ts";
import type { TraceWriter } from "./trace-writer.ts";

/** Application of an ingress's warm-up requests. They normally stay inside the ingress, and are never recorded. */
const OWN_APP = "warm-up";

export interface RecorderOptions {
  readonly writer: TraceWriter;
  /** Models to record; empty: all. */
  readonly models: readonly string[];
  readonly payloads: boolean;
  /** Milliseconds of a monotonic clock. */
  readonly nowMs: () => number;
  /** Milliseconds since 1970. */
  readonly wallMs: () => number;
}

export class Recorder {
  readonly #options: RecorderOptions;
  #startedMs: number | undefined;
  #lostMs: number | undefined;
  /** Number of recorded requests by model. */
  readonly #models = new Map<string, number>();
  awayUs = 0;

  constructor(options: RecorderOptions) {
    this.#options = options;
  }

  get models(): ReadonlyMap<string, number> {
    return this.#models;
  }
  /** Microseconds since the first request; 0 before it. */
  get t(): number {
    return this.#startedMs === undefined ? 0 : this.#since(this.#startedMs);
  }

  listen(bus: Bus): Subscription {
    const { models } = this.#options;
    const subjects = models.length === 0 ? [INFER_SUBJECT] : models.map((model) => inferSubject(model, "*"));
    const subscriptions = subjects.map((subject) => bus.subscribe(subject, (delivery) => this.hear(delivery)));
    const status = bus.onStatus(({ kind }) => {
      if (kind === "disconnected") this.#lostMs ??= this.#options.nowMs();
      else if (kind === "reconnected") this.back();
    });
    return {
      stop: () => {
        for (const subscription of subscriptions) subscription.stop();
        status.stop();
        this.back();
      },
    };
  }

  hear(delivery: Delivery): void {
    const [, model = "", app = ""] = delivery.subject.split(".");
    if (app === OWN_APP) return;
    const nowMs = this.#options.nowMs(); // read at once: the code below takes milliseconds until it is compiled
    this.#startedMs ??= nowMs;
    this.#models.set(model, (this.#models.get(model) ?? 0) + 1);
    this.#options.writer.request(this.#lineOf(delivery, { t: toMicros(nowMs - this.#startedMs), model, app }));
  }

  /** Ends a gap: the connection is back, or the recording stops. Requests in between are unknown. */
  back(): void {
    if (this.#lostMs === undefined) return;
    const awayUs = this.#since(this.#lostMs);
    this.#lostMs = undefined;
    this.awayUs += awayUs;
    this.#options.writer.away(this.t, awayUs);
  }

  #lineOf(delivery: Delivery, known: Pick<TraceLine, "t" | "model" | "app">): TraceLine {
    const sloUs = this.#sloOf(delivery);
    const line: TraceLine = {
      ...known,
      ...(sloUs !== undefined && { sloUs }),
      bytes: delivery.payload.byteLength,
    };
    if (!this.#options.payloads) return line;
    const contentType = delivery.header(HEADER.contentType);
    const payload = Buffer.from(delivery.payload).toString("base64");
    return { ...line, ...(contentType !== undefined && { contentType }), payload };
  }

  /** Reads the SLO as the ingress does; undefined: there is none, or the ingress would refuse it. */
  #sloOf(delivery: Delivery): number | undefined {
    const text = delivery.header(HEADER.slo);
    if (text !== undefined) return usable(parseDuration(text));
    const deadline = delivery.header(HEADER.deadline);
    return deadline === undefined ? undefined : usable(Math.round((Number(deadline) - this.#options.wallMs()) * 1000));
  }

  #since(startMs: number): number {
    return toMicros(this.#options.nowMs() - startMs);
  }
}

const toMicros = (ms: number): number => Math.round(ms * 1000);

const usable = (sloUs: number | undefined): number | undefined =>
  sloUs !== undefined && sloUs > 0 && sloUs <= SLO_US_MAX ? sloUs : undefined;
