/**
 * The agent of one host: it reports actors' processes, and restarts, drains and logs them on operators' orders.
 *
 *   AGENT-1. One order at a time; a second is refused. A repeated order counts once.
 *   AGENT-2. An accepted order is reported on at least once a second, and ends with one message that says so.
 *   AGENT-3. An agent survives every message: malformed ones are counted, and no sender can make it exceed its bounds
 *            (T7, T8).
 */
import type { Bus, Subscription } from "@tutti/ports/bus";
import {
  AgentAnswered,
  AgentsAsked,
  LOG_LINES_MAX,
  type LogLine,
  LogsAsked,
  LogsTold,
  type CheckedMessage,
  type MessageType,
  OrderProgressed,
  ProcessOrdered,
  subjectsOf,
} from "@tutti/protocol";
import type { ActorKey, Instant } from "@tutti/units";
import { FrameReader, FrameWriter } from "@tutti/wire";
import type { ProcessManager } from "./process-manager.ts";

export interface HostAgentOptions {
  readonly bus: Bus;
  readonly cluster: string;
  readonly key: ActorKey;
  readonly host: string;
  readonly pid: number;
  readonly processManager: ProcessManager;
  /** Period of reports on an order in progress. */
  readonly beatMs?: number;
  /** Period of log messages to followers. */
  readonly followMs?: number;
  /** A follower that has not asked again for so long is dropped. */
  readonly forgetMs?: number;
}

const READY_MS_MIN = 1_000;
const READY_MS_MAX = 600_000;
/** Number of finished orders whose end can be reported again. */
const ENDS_KEPT = 64;
const FOLLOWERS_MAX = 32;
/** Characters of log lines in one message: well below a server's default limit of 1 MiB. */
const TOLD_LENGTH_MAX = 262_144;

type Progress = Pick<OrderProgressed, "text" | "end">;

interface Working {
  readonly id: string;
  readonly operator: ActorKey;
  readonly ask: number;
  readonly what: string;
  last: Progress;
}

interface Follower {
  readonly to: ActorKey;
  readonly ask: number;
  readonly process: string;
  heardAt: number;
  waiting: LogLine[];
  left: number;
}

export class HostAgent {
  readonly #options: HostAgentOptions;
  readonly #subjects;
  readonly #subscriptions: readonly Subscription[];
  readonly #following: { stop(): void };
  readonly #timers: readonly NodeJS.Timeout[];
  readonly #ends = new Map<string, Progress>();
  readonly #followers = new Map<string, Follower>();
  #working: Working | undefined;
  /** Number of malformed messages. */
  faults = 0;

  constructor(options: HostAgentOptions) {
    this.#options = options;
    this.#subjects = subjectsOf(options.cluster);
    const reader = this.#createReader();
    this.#subscriptions = [this.#subjects.agents, this.#subjects.agent(options.key)].map((subject) =>
      options.bus.subscribe(subject, (delivery) => {
        if (reader.read(delivery.payload) !== undefined) this.faults++;
      }),
    );
    this.#following = options.processManager.logs.listen((process, line) => this.#onLine(process, line));
    this.#timers = [
      setInterval(() => this.#beat(), options.beatMs ?? 1_000).unref(),
      setInterval(() => this.#tellFollowers(), options.followMs ?? 100).unref(),
    ];
  }

  close(): void {
    for (const subscription of this.#subscriptions) subscription.stop();
    for (const timer of this.#timers) clearInterval(timer);
    this.#following.stop();
    for (const { to, ask, process } of this.#followers.values())
      this.#send(to, LogsTold, { ask, process, lines: [], left: 0, end: true });
    this.#followers.clear();
  }

  #createReader(): FrameReader {
    const reader = new FrameReader();
    const on = <T extends object>(type: CheckedMessage<T>, handler: (value: T, sender: ActorKey) => void): void => {
      reader.on(type, (value, sender) => {
        if (type.accepts(value)) handler(value, sender);
        else this.faults++;
      });
    };
    on(AgentsAsked, ({ ask }, operator) => this.#present(ask, operator));
    on(ProcessOrdered, (order, operator) => this.#onOrder(order, operator));
    on(LogsAsked, (asked, operator) => this.#onLogs(asked, operator));
    return reader;
  }

  #send<T>(to: ActorKey, type: MessageType<T>, value: T): void {
    const writer = new FrameWriter(this.#options.key);
    writer.add(type, value);
    this.#options.bus.publish(this.#subjects.operator(to), writer.take());
  }

  #present(ask: number, operator: ActorKey): void {
    const { key: agent, host, pid, processManager } = this.#options;
    this.#send(operator, AgentAnswered, { ask, agent, host, pid, processes: processManager.processes() });
  }

  #onOrder({ ask, order, process, size, within }: ProcessOrdered, operator: ActorKey): void {
    const id = `${operator}/${ask}`;
    const tell = (progress: Progress): void => this.#send(operator, OrderProgressed, { ask, ...progress });
    const known = this.#working?.id === id ? this.#working.last : this.#ends.get(id);
    if (known !== undefined) return tell(known);
    const { processManager } = this.#options;
    if (!processManager.processes().some(({ name }) => name === process))
      return tell({ text: `there is no process ${process} at this agent`, end: "unknown" });
    if (this.#working !== undefined) return tell({ text: `the agent is busy: ${this.#working.what}`, end: "busy" });
    const working: Working = { id, operator, ask, what: `${order} ${process}`, last: { text: "", end: "" } };
    this.#working = working;
    const say = (progress: Progress): void => {
      working.last = progress;
      tell(progress);
    };
    const readyMs = Math.min(READY_MS_MAX, Math.max(READY_MS_MIN, within / 1_000));
    void processManager
      .perform(order, process, { readyMs, size, report: (text) => say({ text: text.slice(0, 2_000), end: "" }) })
      .then(
        () => ({ text: "", end: "done" }) as const,
        (error: unknown) => ({ text: textOf(error).slice(0, 2_000), end: "failed" }) as const,
      )
      .then((end) => {
        this.#working = undefined;
        if (this.#ends.size >= ENDS_KEPT) this.#ends.delete(this.#ends.keys().next().value ?? "");
        this.#ends.set(id, end);
        say(end);
      });
  }

  /** AGENT-2 */
  #beat(): void {
    if (this.#working === undefined) return;
    const { operator, ask } = this.#working;
    this.#send(operator, OrderProgressed, { ask, text: "", end: "" });
  }

  #onLogs({ ask, process, back, follow }: LogsAsked, operator: ActorKey): void {
    const id = `${operator}/${ask}`;
    const follower = this.#followers.get(id);
    if (follower !== undefined) {
      follower.heardAt = performance.now();
      return;
    }
    const from = (Date.now() * 1_000 - back) as Instant;
    const { lines, left } =
      back === 0 ? { lines: [], left: 0 } : this.#options.processManager.logs.since(process, from);
    const mayFollow = follow && this.#followers.size < FOLLOWERS_MAX;
    this.#tell(operator, { ask, process, left, end: !mayFollow }, lines);
    if (mayFollow)
      this.#followers.set(id, { to: operator, ask, process, heardAt: performance.now(), waiting: [], left: 0 });
  }

  #onLine(process: string, line: LogLine): void {
    for (const follower of this.#followers.values()) {
      if (follower.process !== process) continue;
      if (follower.waiting.length < LOG_LINES_MAX) follower.waiting.push(line);
      else follower.left++;
    }
  }

  #tellFollowers(): void {
    const forgetBefore = performance.now() - (this.#options.forgetMs ?? 15_000);
    for (const [id, follower] of this.#followers) {
      if (follower.heardAt < forgetBefore) this.#followers.delete(id);
      if (follower.waiting.length === 0 && follower.left === 0) continue;
      const { to, ask, process, waiting, left } = follower;
      this.#tell(to, { ask, process, left, end: false }, waiting);
      follower.waiting = [];
      follower.left = 0;
    }
  }

  /** Sends lines in as many messages as necessary; the last one has `left` and `end`. */
  #tell(to: ActorKey, told: Omit<LogsTold, "lines">, lines: readonly LogLine[]): void {
    let part: LogLine[] = [];
    let length = 0;
    for (const line of lines) {
      if (part.length >= LOG_LINES_MAX || length + line.text.length > TOLD_LENGTH_MAX) {
        this.#send(to, LogsTold, { ...told, lines: part, left: 0, end: false });
        part = [];
        length = 0;
      }
      part.push(line);
      length += line.text.length;
    }
    this.#send(to, LogsTold, { ...told, lines: part });
  }
}

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
