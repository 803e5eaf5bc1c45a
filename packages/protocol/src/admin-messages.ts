/**
 * Messages between an operator's command and the agents. An agent supervises the processes of actors on one host
 * (`tutti up`, `tutti run`). Answers go to the asker's own subject, so an agent needs no permission on anybody's inbox.
 * `ask` is the asker's number for one question; a repeated question changes nothing.
 */
import { type ActorKey, ACTOR_KEY_MAX, type Instant, type Micros } from "@tutti/units";
import { type MessageOf, packed } from "./fields.ts";
import { ROLES } from "./subjects.ts";

/** Most processes of one agent (T7). */
export const AGENT_PROCESSES_MAX = 1_024;
/** Most characters of one log line in a message, and most lines of one message. */
export const LOG_LINE_LENGTH_MAX = 4_096;
export const LOG_LINES_MAX = 256;

const PROCESS_STATES = ["starting", "ready", "waiting", "parked", "given-up"] as const;
/**
 * `waiting`: it died, and starts again in a moment. `parked`: an operator keeps it down. `given-up`: it dies at every
 * start.
 */
export type ProcessPhase = (typeof PROCESS_STATES)[number];

/** Role of a process; a node hosts several roles. */
export const PROCESS_ROLES = [...ROLES, "node"] as const;
export type ProcessRole = (typeof PROCESS_ROLES)[number];

export interface ProcessState {
  /** Name, unique at its agent: `ranker-1`. */
  readonly name: string;
  readonly role: ProcessRole;
  /** Process id; 0: it doesn't run now. */
  readonly pid: number;
  /** The actor's token; "" until the actor reports that it is ready. */
  readonly actor: string;
  /** Role node: the tokens of all its actors. */
  readonly actors?: readonly string[];
  readonly phase: ProcessPhase;
  /** Starts after the first, whatever caused them. */
  readonly restarts: number;
}

export const AgentsAsked = packed<{ readonly ask: number }>({
  tag: 80,
  name: "agents-asked",
  from: "operator",
  to: "agent",
  repair: "asked again while an answer is missing",
});
export type AgentsAsked = MessageOf<typeof AgentsAsked>;

export const AgentAnswered = packed<{
  readonly ask: number;
  readonly agent: ActorKey;
  readonly host: string;
  readonly pid: number;
  readonly processes: readonly ProcessState[];
}>({ tag: 81, name: "agent-answered", from: "agent", to: "operator", repair: "AgentsAsked is sent again" });
export type AgentAnswered = MessageOf<typeof AgentAnswered>;

export const PROCESS_ORDERS = ["restart", "drain", "undrain", "split"] as const;
export type ProcessOrder = (typeof PROCESS_ORDERS)[number];

/**
 * Orders an agent to replace, drain or bring back one process, or to split its accelerator. An agent works on one order
 * at a time, and refuses a second.
 */
export const ProcessOrdered = packed<{
  readonly ask: number;
  readonly order: ProcessOrder;
  readonly process: string;
  /** split: size of the first part of the accelerator, in percent; the second part is the rest. 100: whole again. */
  readonly size?: number;
  /** Time limit until the replacement is ready. */
  readonly within: Micros;
}>({
  tag: 82,
  name: "process-ordered",
  from: "operator",
  to: "agent",
  repair: "sent again until the agent says something; it knows an order that it has",
});
export type ProcessOrdered = MessageOf<typeof ProcessOrdered>;

const ORDER_ENDS = ["", "done", "failed", "busy", "unknown"] as const;

/** Progress of an order: at least one message a second, and a last one with an `end`. */
export const OrderProgressed = packed<{
  readonly ask: number;
  /** Progress for people; "" while the agent only still works on it. */
  readonly text: string;
  /** Outcome. `busy`: the agent works on another order. `unknown`: it has no such process. */
  readonly end: (typeof ORDER_ENDS)[number];
}>({
  tag: 83,
  name: "order-progressed",
  from: "agent",
  to: "operator",
  repair: "the next one; the last one is told again when the order is repeated",
});
export type OrderProgressed = MessageOf<typeof OrderProgressed>;

/** Asks for the kept lines of one process, and for new ones as long as this is sent again. */
export const LogsAsked = packed<{
  readonly ask: number;
  readonly process: string;
  /** How far back the lines go; 0: only new ones. */
  readonly back: Micros;
  readonly follow: boolean;
}>({
  tag: 84,
  name: "logs-asked",
  from: "operator",
  to: "agent",
  repair: "a follower sends it again every few seconds; an agent forgets one that does not",
});
export type LogsAsked = MessageOf<typeof LogsAsked>;

export interface LogLine {
  readonly at: Instant;
  readonly text: string;
}

export const LogsTold = packed<{
  readonly ask: number;
  readonly process: string;
  readonly lines: readonly LogLine[];
  /** Lines that are not kept any more, or that came faster than they may be sent. */
  readonly left: number;
  readonly end: boolean;
}>({
  tag: 85,
  name: "logs-told",
  from: "agent",
  to: "operator",
  repair: "none: a log with a gap says so by `left` where the agent knows",
});
export type LogsTold = MessageOf<typeof LogsTold>;

type Unknown<T> = { readonly [K in keyof T]?: unknown };

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isAsk = (value: unknown): boolean => isCount(value) && value > 0;
const isKey = (value: unknown): boolean => isCount(value) && value > 0 && value < ACTOR_KEY_MAX;
const isText = (value: unknown, lengthMax: number): boolean => typeof value === "string" && value.length <= lengthMax;
const isOneOf = (value: unknown, choices: readonly string[]): boolean =>
  typeof value === "string" && choices.includes(value);
const isShort = (value: unknown): boolean => isText(value, SHORT_MAX);
const SHORT_MAX = 256;
const TEXT_MAX = 2_048;

function isList(
  value: unknown,
  lengthMax: number,
  isItem: (item: Readonly<Record<string, unknown>>) => boolean,
): boolean {
  return (
    Array.isArray(value) &&
    value.length <= lengthMax &&
    value.every((item: unknown) => typeof item === "object" && item !== null && isItem(item as Record<string, unknown>))
  );
}

const isProcess = ({ name, role, pid, actor, actors, phase, restarts }: Unknown<ProcessState>): boolean =>
  isShort(name) &&
  isOneOf(role, PROCESS_ROLES) &&
  (actors === undefined || (Array.isArray(actors) && actors.length <= ROLES.length && actors.every(isShort))) &&
  isCount(pid) &&
  isShort(actor) &&
  isOneOf(phase, PROCESS_STATES) &&
  isCount(restarts);

/** Validity checks of these messages, made before a handler sees them (T8). */
export const wellFormedAdmin = {
  agentsAsked: ({ ask }: Unknown<AgentsAsked>): boolean => isAsk(ask),
  agentAnswered: ({ ask, agent, host, pid, processes }: Unknown<AgentAnswered>): boolean =>
    isAsk(ask) && isKey(agent) && isShort(host) && isCount(pid) && isList(processes, AGENT_PROCESSES_MAX, isProcess),
  processOrdered: ({ ask, order, process, size, within }: Unknown<ProcessOrdered>): boolean =>
    isAsk(ask) &&
    isOneOf(order, PROCESS_ORDERS) &&
    isShort(process) &&
    isCount(within) &&
    (order === "split") === (size !== undefined) &&
    (size === undefined || (isCount(size) && size >= 1 && size <= 100)),
  orderProgressed: ({ ask, text, end }: Unknown<OrderProgressed>): boolean =>
    isAsk(ask) && isText(text, TEXT_MAX) && isOneOf(end, ORDER_ENDS),
  logsAsked: ({ ask, process, back, follow }: Unknown<LogsAsked>): boolean =>
    isAsk(ask) && isShort(process) && isCount(back) && typeof follow === "boolean",
  logsTold: ({ ask, process, lines, left, end }: Unknown<LogsTold>): boolean =>
    isAsk(ask) &&
    isShort(process) &&
    isCount(left) &&
    typeof end === "boolean" &&
    isList(lines, LOG_LINES_MAX, ({ at, text }) => isCount(at) && isText(text, LOG_LINE_LENGTH_MAX)),
} as const;
