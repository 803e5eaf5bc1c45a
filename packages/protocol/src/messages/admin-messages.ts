/**
 * Messages between an operator's command and the agents. An agent supervises the processes of actors on one host
 * (`tutti up`, `tutti run`). Answers go to the asker's own subject, so an agent needs no permission on anybody's inbox.
 * `ask` is the asker's number for one question; a repeated question changes nothing.
 */
import { type MessageOf, packed } from "../fields.ts";
import { type Static, schema } from "../schema.ts";
import { ROLES } from "../subjects.ts";

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

const SHORT_MAX = 256;
const TEXT_MAX = 2_048;
const short = schema.text(SHORT_MAX);
const ask = schema.whole(1, Number.MAX_SAFE_INTEGER);

export const ProcessState = schema.record({
  /** Name, unique at its agent: `ranker-1`. */
  name: short,
  role: schema.oneOf<ProcessRole>(PROCESS_ROLES),
  /** Process id; 0: it doesn't run now. */
  pid: schema.count,
  /** The actor's token; "" until the actor reports that it is ready. */
  actor: short,
  /** Role node: the tokens of all its actors. */
  actors: schema.optional(schema.list(short, ROLES.length)),
  phase: schema.oneOf(PROCESS_STATES),
  /** Starts after the first, whatever caused them. */
  restarts: schema.count,
});
export type ProcessState = Static<typeof ProcessState>;

export const AgentsAsked = packed(
  { ask },
  {
    tag: 80,
    name: "agents-asked",
    from: "operator",
    to: "agent",
    repair: "asked again while an answer is missing",
  },
);
export type AgentsAsked = MessageOf<typeof AgentsAsked>;

export const AgentAnswered = packed(
  {
    ask,
    agent: schema.actor,
    host: short,
    pid: schema.count,
    processes: schema.list(ProcessState, AGENT_PROCESSES_MAX),
  },
  { tag: 81, name: "agent-answered", from: "agent", to: "operator", repair: "AgentsAsked is sent again" },
);
export type AgentAnswered = MessageOf<typeof AgentAnswered>;

export const PROCESS_ORDERS = ["restart", "drain", "undrain", "split"] as const;
export type ProcessOrder = (typeof PROCESS_ORDERS)[number];

/**
 * Orders an agent to replace, drain or bring back one process, or to split its accelerator. An agent works on one order
 * at a time, and refuses a second.
 */
export const ProcessOrdered = packed(
  {
    ask,
    order: schema.oneOf(PROCESS_ORDERS),
    process: short,
    /** split: size of the first part of the accelerator, in percent; the second part is the rest. 100: whole again. */
    size: schema.optional(schema.whole(1, 100)),
    /** Time limit until the replacement is ready. */
    within: schema.time,
  },
  {
    tag: 82,
    name: "process-ordered",
    from: "operator",
    to: "agent",
    repair: "sent again until the agent says something; it knows an order that it has",
    also: ({ order, size }) => (order === "split") === (size !== undefined),
  },
);
export type ProcessOrdered = MessageOf<typeof ProcessOrdered>;

const ORDER_ENDS = ["", "done", "failed", "busy", "unknown"] as const;

/** Progress of an order: at least one message a second, and a last one with an `end`. */
export const OrderProgressed = packed(
  {
    ask,
    /** Progress for people; "" while the agent only still works on it. */
    text: schema.text(TEXT_MAX),
    /** Outcome. `busy`: the agent works on another order. `unknown`: it has no such process. */
    end: schema.oneOf(ORDER_ENDS),
  },
  {
    tag: 83,
    name: "order-progressed",
    from: "agent",
    to: "operator",
    repair: "the next one; the last one is told again when the order is repeated",
  },
);
export type OrderProgressed = MessageOf<typeof OrderProgressed>;

/** Asks for the kept lines of one process, and for new ones as long as this is sent again. */
export const LogsAsked = packed(
  {
    ask,
    process: short,
    /** How far back the lines go; 0: only new ones. */
    back: schema.time,
    follow: schema.flag,
  },
  {
    tag: 84,
    name: "logs-asked",
    from: "operator",
    to: "agent",
    repair: "a follower sends it again every few seconds; an agent forgets one that does not",
  },
);
export type LogsAsked = MessageOf<typeof LogsAsked>;

const LogLine = schema.record({
  at: schema.moment,
  text: schema.text(LOG_LINE_LENGTH_MAX),
});
export type LogLine = Static<typeof LogLine>;

export const LogsTold = packed(
  {
    ask,
    process: short,
    lines: schema.list(LogLine, LOG_LINES_MAX),
    /** Lines that are not kept any more, or that came faster than they may be sent. */
    left: schema.count,
    end: schema.flag,
  },
  {
    tag: 85,
    name: "logs-told",
    from: "agent",
    to: "operator",
    repair: "none: a log with a gap says so by `left` where the agent knows",
  },
);
export type LogsTold = MessageOf<typeof LogsTold>;
