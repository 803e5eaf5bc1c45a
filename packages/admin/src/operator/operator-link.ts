/** An operator's connection to agents: it asks for their processes, gives orders, and reads logs. */
import { randomInt } from "node:crypto";
import type { Bus } from "@tutti/ports/bus";
import {
  AgentAnswered,
  AgentsAsked,
  LogsAsked,
  LogsTold,
  type MessageType,
  OrderProgressed,
  type ProcessOrder,
  ProcessOrdered,
  subjectsOf,
} from "@tutti/protocol";
import { ACTOR_KEY_MAX, type ActorKey, actorKey, micros } from "@tutti/units";
import { FrameReader, FrameWriter } from "@tutti/wire";
import { CommandError, EXIT } from "../failure.ts";

/** An order without progress for so long is lost: its agent died, and its processes with it. */
const SILENCE_MS = 6_000;
const REPEAT_MS = 1_000;
const RENEW_MS = 4_000;
const AGENTS_MAX = 1_024;

export interface LinkTimes {
  readonly silenceMs?: number;
  readonly repeatMs?: number;
  readonly renewMs?: number;
}

export interface LogStream {
  stop(): void;
  readonly ended: Promise<void>;
}

export class OperatorLink {
  readonly #bus: Bus;
  readonly #key: ActorKey = actorKey(randomInt(1, ACTOR_KEY_MAX - 1));
  readonly #subjects;
  readonly #times: Required<LinkTimes>;
  readonly #subscription: { stop(): void };
  readonly #agents = new Map<ActorKey, AgentAnswered>();
  readonly #orders = new Map<number, (progress: OrderProgressed) => void>();
  readonly #logs = new Map<number, (told: LogsTold) => void>();
  #onAgent: () => void = () => undefined;
  #asks = 0;

  constructor(bus: Bus, cluster: string, times: LinkTimes = {}) {
    this.#bus = bus;
    this.#subjects = subjectsOf(cluster);
    this.#times = { silenceMs: SILENCE_MS, repeatMs: REPEAT_MS, renewMs: RENEW_MS, ...times };
    const reader = new FrameReader()
      .on(AgentAnswered, (answer) => {
        if (!AgentAnswered.accepts(answer)) return;
        if (this.#agents.size < AGENTS_MAX || this.#agents.has(answer.agent)) this.#agents.set(answer.agent, answer);
        this.#onAgent();
      })
      .on(OrderProgressed, (progress) => {
        if (OrderProgressed.accepts(progress)) this.#orders.get(progress.ask)?.(progress);
      })
      .on(LogsTold, (told) => {
        if (LogsTold.accepts(told)) this.#logs.get(told.ask)?.(told);
      });
    this.#subscription = bus.subscribe(
      this.#subjects.operator(this.#key),
      (delivery) => void reader.read(delivery.payload),
    );
  }

  close(): void {
    this.#subscription.stop();
  }

  /** Collects agents' answers for `waitMs`, or until `isEnough`. */
  async agents(
    waitMs: number,
    isEnough: (agents: readonly AgentAnswered[]) => boolean = () => false,
  ): Promise<AgentAnswered[]> {
    this.#agents.clear();
    const { promise, resolve } = Promise.withResolvers<void>();
    const ask = (): void => this.#send(this.#subjects.agents, AgentsAsked, { ask: ++this.#asks });
    this.#onAgent = () => isEnough([...this.#agents.values()]) && resolve();
    const [timer, asking] = [setTimeout(resolve, waitMs), setInterval(ask, Math.max(50, waitMs / 3))];
    ask();
    await promise;
    clearTimeout(timer);
    clearInterval(asking);
    this.#onAgent = () => undefined;
    return [...this.#agents.values()];
  }

  /**
   * Orders an agent to restart, drain, undrain or split one of its processes, and resolves when that is done.
   *
   * @throws {CommandError} it could not be done, the agent is busy with another order, or it has fallen silent
   */
  async order(to: {
    readonly agent: ActorKey;
    readonly host: string;
    readonly order: ProcessOrder;
    readonly process: string;
    /** For `split`. */
    readonly size?: number | undefined;
    readonly withinMs: number;
    readonly onText: (text: string) => void;
  }): Promise<void> {
    const ask = ++this.#asks;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const message: ProcessOrdered = {
      ...{ ask, order: to.order, process: to.process, within: micros(Math.round(to.withinMs * 1_000)) },
      ...(to.size !== undefined && { size: to.size }),
    };
    const send = (): void => this.#send(this.#subjects.agent(to.agent), ProcessOrdered, message);
    let heardAt = performance.now();
    let heard = false;
    let told = "";
    this.#orders.set(ask, ({ text, end }) => {
      heardAt = performance.now();
      heard = true;
      if (end === "" && text !== "" && text !== told) to.onText((told = text));
      if (end === "done") resolve();
      else if (end !== "") reject(new CommandError(text));
    });
    const timer = setInterval(() => {
      const silentMs = performance.now() - heardAt;
      if (silentMs > this.#times.silenceMs) reject(new CommandError(silenceText(to, silentMs)));
      else if (!heard || silentMs > 2 * this.#times.repeatMs) send();
    }, this.#times.repeatMs);
    send();
    try {
      await promise;
    } finally {
      clearInterval(timer);
      this.#orders.delete(ask);
    }
  }

  /** Reports the kept lines of the last `backMs`, and with `follow` new ones until it is stopped. */
  logs(
    of: { readonly agent: ActorKey; readonly process: string; readonly backMs: number; readonly follow: boolean },
    onTold: (told: LogsTold) => void,
  ): LogStream {
    const ask = ++this.#asks;
    const { agent, process, backMs, follow } = of;
    const { promise: ended, resolve, reject } = Promise.withResolvers<void>();
    const message = { ask, process, back: micros(Math.round(backMs * 1_000)), follow };
    const send = (): void => this.#send(this.#subjects.agent(agent), LogsAsked, message);
    let heard = false;
    this.#logs.set(ask, (told) => {
      heard = true;
      onTold(told);
      if (told.end) stop();
    });
    const renewing = setInterval(send, this.#times.renewMs);
    const patience: NodeJS.Timeout = setTimeout(() => {
      if (heard) return;
      stop();
      reject(new CommandError(`the agent of ${process} does not answer`, EXIT.unavailable));
    }, this.#times.silenceMs);
    const stop = (): void => {
      clearInterval(renewing);
      clearTimeout(patience);
      this.#logs.delete(ask);
      resolve();
    };
    send();
    return { stop, ended };
  }

  #send<T>(subject: string, type: MessageType<T>, value: T): void {
    const writer = new FrameWriter(this.#key);
    writer.add(type, value);
    this.#bus.publish(subject, writer.take());
  }
}

const silenceText = ({ host, order, process }: { host: string; order: string; process: string }, ms: number): string =>
  `the agent on ${host} fell silent ${Math.round(ms / 1000)} s ago, in the middle of: ${order} ${process}. If it died, its processes died with it: look at ${host}`;
