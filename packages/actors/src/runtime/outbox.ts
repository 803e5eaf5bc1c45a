import type { Bus } from "@tutti/ports/bus";
import type { Clock, Stop } from "@tutti/ports/clock";
import { FRAME_BYTES_MAX, type MessageType } from "@tutti/protocol";
import { type ActorKey, ALWAYS, type Instant, type Micros, after, millis } from "@tutti/units";
import { FrameWriter } from "@tutti/wire";

/** Bound of destinations with a writer of their own; beyond it, idle writers are removed. */
const WRITERS_MAX = 4_096;
/** Default interval at which messages of urgency `soon` leave, at the most. */
const RELAXED_EVERY = millis(1);
/** Empty ticks after which the ticking stops. */
const IDLE_TICKS = 32;

/**
 * When a message leaves. `now`: at the end of the turn. `soon`: at the end of the turn too, but within a millisecond of
 * the last flush only together with others. `at once`: before the call returns, with all that waits, so that it shares
 * a write with what was sent just before. `upkeep`: as `now`, but repeated whether or not there is work, so that it
 * does not count as work (ActorRuntime).
 */
export type Urgency = "now" | "soon" | "at once" | "upkeep";

/**
 * Gathers the control messages to a destination in one turn of the event loop into one bus message. It is flushed at
 * the end of the turn: a small NATS message costs 9 µs of CPU alone, a record in a frame a tenth of that. Messages that
 * may wait a millisecond (arrivals, refusals) are gathered for that long when there are many: fewer messages help a
 * machine that is short of processors, earlier ones don't.
 */
export class Outbox {
  readonly #bus: Bus;
  readonly #clock: Clock;
  readonly #sender: ActorKey;
  readonly #gatherFor: Micros;
  readonly #writers = new Map<string, FrameWriter>();
  #waiting: { subject: string; writer: FrameWriter }[] = [];
  #flushing = false;
  #flushedAt: Instant = ALWAYS;
  #ticking: Stop | undefined;
  #emptyTicks = 0;
  /** Frames that the bus did not take; each message's own rule repairs the loss. */
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
    if (urgency === "at once" || writer.byteLength > FRAME_BYTES_MAX) this.flush();
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
    // A bus may deliver at once to somebody who adds messages: those wait for the next flush, or for one within this.
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { subject, writer } of waiting)
      if (writer.recordCount > 0 && !this.#bus.publish(subject, writer.take())) this.lost++;
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
