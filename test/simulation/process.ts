import type { Alarm, Clock, Stop, VirtualClock } from "@tutti/ports/clock";
import { type ActorKey, type Instant, type Micros, NEVER } from "@tutti/units";

export interface CrashWatcher {
  /** The process threw an exception: in production it would have ended. */
  onCrash(where: { readonly name: string }, error: unknown): void;
}

/**
 * One process of a simulated host, with one actor or several. It can be killed at any point, or stopped (SIGSTOP) and
 * woken with all events that came meanwhile, and its clock differs from the others'. Everything that reaches it goes
 * through `perform`, so that a dead process does nothing any more.
 */
export class Process {
  readonly name: string;
  readonly host: string;
  readonly pid: number;
  /** Its clock minus true time, in µs; of either sign. */
  readonly skew: number;
  readonly #watcher: CrashWatcher;
  alive = true;
  paused = false;
  /** True time at which it was last woken. */
  wokenAt = -Infinity;
  /** Its connection for requests and answers: whether it is away, and when it last came back, in true time. */
  bulkAway = false;
  bulkBackAt = -Infinity;
  readonly #waiting: (() => void)[] = [];

  constructor(options: Pick<Process, "name" | "host" | "pid" | "skew"> & { readonly watcher: CrashWatcher }) {
    this.name = options.name;
    this.host = options.host;
    this.pid = options.pid;
    this.skew = options.skew;
    this.#watcher = options.watcher;
  }

  perform(run: () => void): void {
    if (!this.alive) return;
    if (this.paused) return void this.#waiting.push(run);
    try {
      run();
    } catch (error) {
      this.#watcher.onCrash(this, error);
    }
  }
  wake(now: Instant): void {
    this.paused = false;
    this.wokenAt = now;
    while (this.#waiting.length > 0 && this.alive && !this.paused) this.perform(this.#waiting.shift()!);
  }
  end(): void {
    this.alive = false;
    this.#waiting.length = 0;
  }
}

/**
 * Most timers that one actor may have armed at once (T7). It has a few of its own, and one per accelerator and model.
 */
export const TIMERS_MAX = 128;

/** One incarnation of one actor, as checkers see it. */
export class Incarnation {
  readonly slot: string;
  readonly key: ActorKey;
  readonly process: Process;
  readonly #watcher: CrashWatcher;
  armed = 0;
  /** The actor's answer to STATS. */
  figures: (() => Readonly<Record<string, number>>) | undefined;

  constructor(options: Pick<Incarnation, "slot" | "key" | "process"> & { readonly watcher: CrashWatcher }) {
    this.slot = options.slot;
    this.key = options.key;
    this.process = options.process;
    this.#watcher = options.watcher;
  }

  get name(): string {
    return `${this.slot}#${this.key.toString(36)}`;
  }
  get alive(): boolean {
    return this.process.alive;
  }
  get paused(): boolean {
    return this.process.paused;
  }
  get wokenAt(): number {
    return this.process.wokenAt;
  }

  /** Runs the actor's code. An exception is the actor's own fault, also where others of its process would catch it. */
  perform(run: () => void): void {
    this.process.perform(() => {
      try {
        run();
      } catch (error) {
        this.#watcher.onCrash(this, error);
      }
    });
  }
}

/**
 * An actor's clock: true time plus the skew of its process. A timer that is due while the process is stopped fires
 * once, when it wakes.
 */
export class ActorClock implements Clock {
  readonly #clock: VirtualClock;
  readonly #actor: Incarnation;

  constructor(clock: VirtualClock, actor: Incarnation) {
    this.#clock = clock;
    this.#actor = actor;
  }

  now(): Instant {
    return (this.#clock.now() + this.#actor.process.skew) as Instant;
  }
  lateness(): Micros {
    return this.#clock.lateness();
  }

  alarm(fire: () => void): Alarm {
    const actor = this.#actor;
    let setting = 0;
    let armed = false;
    const disarm = (): void => {
      setting++;
      if (armed) actor.armed--;
      armed = false;
    };
    const inner = this.#clock.alarm(() => {
      const fired = setting;
      // A stopped process may set the timer anew when it wakes, before it comes to this.
      actor.perform(() => {
        if (fired !== setting) return;
        disarm();
        fire();
      });
    });
    return {
      set: (at) => {
        if (!actor.alive) return;
        disarm();
        if (at !== NEVER) {
          armed = true;
          actor.armed++;
        }
        inner.set(at === NEVER ? NEVER : ((at - actor.process.skew) as Instant));
      },
      clear: () => {
        disarm();
        inner.clear();
      },
    };
  }

  every(period: Micros, run: () => void): Stop {
    const actor = this.#actor;
    let waits = false;
    let stopped = false;
    actor.armed++;
    const inner = this.#clock.every(period, () => {
      if (!actor.alive) return inner.stop();
      if (waits) return;
      waits = true;
      actor.perform(() => {
        waits = false;
        if (!stopped) run();
      });
    });
    return {
      stop: () => {
        if (!stopped) actor.armed--;
        stopped = true;
        inner.stop();
      },
    };
  }

  endOfTurn(run: () => void): void {
    this.#clock.endOfTurn(() => this.#actor.perform(run));
  }
}
