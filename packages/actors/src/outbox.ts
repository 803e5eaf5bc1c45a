import type { Bus } from "@tutti/ports/bus";
import type { Clock, Stop } from "@tutti/ports/clock";
import { FRAME_BYTES_MAX, type MessageType } from "@tutti/protocol";
import { type ActorKey, ALWAYS, type Instant, type Micros, after, millis } from "@tutti/units";
import { FrameWriter } from "@tutti/wire";

/** Destinations with a writer of their own; beyond, idle ones are let go. */
const WRITERS_MAX = 4_096;
/** What may wait leaves at most so often. */
const RELAXED_EVERY = millis(1);
/** Empty ticks after which the ticking stops. */
const IDLE_TICKS = 32;

/**
 * `now`: at the end of the turn. `soon`: at the end of the turn too, but within a millisecond of the last time only
 * together with others. `upkeep`: as `now`, but repeated whether or not there is work, so that it does not count as
 * work (ActorRuntime).
 */
export type Urgency = "now" | "soon" | "upkeep";

/**
 * Control messages to the same destination in one turn of the event loop travel as one bus message, flushed at the end
 * of the turn: a small NATS message costs 9 µs of CPU alone, a record in a frame a tenth of one. What may wait a
 * millisecond (arrivals, refusals, reports of what is done) is gathered for that long when there is much of it: a
 * machine that is short of processors is helped by fewer messages, not by earlier ones.
 */
export class Outbox {
  readonly #bus: Bus;
  readonly #clock: Clock;
  readonly #sender: ActorKey;
  readonly #gatherFor: Micros;
  readonly #writers = new Map<string, FrameWriter>();
  readonly #waiting: { subject: string; writer: FrameWriter }[] = [];
  #flushing = false;
  #flushedAt: Instant = ALWAYS;
  #ticking: Stop | undefined;
  #emptyTicks = 0;
  /** Frames that the bus did not take: repaired by each message's own rule. */
  lost = 0;

  constructor(bus: Bus, clock: Clock, sender: ActorKey, gatherFor: Micros = RELAXED_EVERY) {
    this.#bus = bus;
    this.#clock = clock;
    this.#sender = sender;
    this.#gatherFor = gatherFor;
  }

  add<T>(subject: string, type: MessageType<T>, value: T, urgency: Urgency = "now"): void {
    let writer = this.#writers.get(subject);
    if (writer === undefined) {
      if (this.#writers.size >= WRITERS_MAX) this.#letIdleGo();
      writer = new FrameWriter(this.#sender);
      this.#writers.set(subject, writer);
    }
    if (writer.recordCount === 0) this.#waiting.push({ subject, writer });
    writer.add(type, value);
    if (writer.byteLength > FRAME_BYTES_MAX) this.flush();
    else if (this.#flushing) return;
    else if (urgency === "soon" && this.#clock.now() < after(this.#flushedAt, this.#gatherFor)) this.#tick();
    else {
      this.#flushing = true;
      this.#clock.endOfTurn(this.#flushAtEndOfTurn);
    }
  }

  readonly #flushAtEndOfTurn = (): void => {
    this.#flushing = false;
    this.flush();
  };

  flush(): void {
    if (this.#waiting.length === 0) return;
    this.#flushedAt = this.#clock.now();
    for (let i = 0; i < this.#waiting.length; i++) {
      const { subject, writer } = this.#waiting[i]!;
      if (writer.recordCount > 0 && !this.#bus.publish(subject, writer.take())) this.lost++;
    }
    this.#waiting.length = 0;
  }

  close(): void {
    this.flush();
    this.#ticking?.stop();
    this.#ticking = undefined;
  }

  #tick(): void {
    this.#emptyTicks = 0;
    this.#ticking ??= this.#clock.every(this.#gatherFor, () => {
      if (this.#waiting.length > 0) this.#emptyTicks = 0;
      else if (++this.#emptyTicks > IDLE_TICKS) {
        this.#ticking?.stop();
        this.#ticking = undefined;
      }
      this.flush();
    });
  }

  #letIdleGo(): void {
    for (const [subject, writer] of this.#writers) if (writer.recordCount === 0) this.#writers.delete(subject);
  }
}
