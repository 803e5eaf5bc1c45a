/**
 * Resolves an operator's name for processes. A name is a role (`ranker`), a process (`ranker-1`, `host-b/executor`), an
 * actor's id or its prefix, or `all`.
 */
import { type AgentAnswered, type ProcessRole, type ProcessState, PROCESS_ROLES, NODE_ROLES } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";
import { CommandError, usageError } from "../failure.ts";
import { didYouMean } from "../nearest.ts";

const isProcessRole = (name: string): boolean => (PROCESS_ROLES as readonly string[]).includes(name);

export interface Target extends ProcessState {
  readonly agent: ActorKey;
  readonly host: string;
}

/**
 * The order of restarts: first the roles that serving can do without, last the ingresses. Requests thus enter when
 * everything behind the ingresses is new. A spare ranker goes before its leader, so that the lead moves once.
 */
const ORDER: readonly ProcessRole[] = [
  "profiler",
  "planner",
  "gateway",
  "jobs",
  "ranker",
  "batcher",
  "executor",
  "ingress",
  "node",
];

export const processesOf = (agents: readonly AgentAnswered[]): Target[] =>
  agents.flatMap(({ agent, host, processes }) => processes.map((process) => ({ ...process, agent, host })));

/**
 * @param leads - says of an actor's id whether it leads
 * @throws {CommandError} a name matches no process, or several
 */
export function findTargets(
  name: string,
  agents: readonly AgentAnswered[],
  leads: (actor: string) => boolean,
): Target[] {
  const known = processesOf(agents);
  if (known.length === 0)
    throw new CommandError("no agent answers: processes are kept by `tutti up`, or by `tutti run` with --agent-creds");
  const meant = known.filter((process) => means(name, process));
  if (meant.length === 0)
    throw new CommandError(
      `there is no "${name}" that an agent keeps${didYouMean(name, namesOf(known))}; there are: ${listed(known)}`,
    );
  if (name !== "all" && !isProcessRole(name) && meant.length > 1)
    throw usageError(
      `"${name}" is not unique: ${meant.map(({ host, name: own, pid }) => `${host}/${own} (pid ${pid})`).join(", ")}`,
    );
  return meant.sort(
    (a, b) =>
      ORDER.indexOf(a.role) - ORDER.indexOf(b.role) ||
      Number(tokensOf(a).some(leads)) - Number(tokensOf(b).some(leads)) ||
      (`${a.host}/${a.name}` < `${b.host}/${b.name}` ? -1 : 1),
  );
}

/**
 * Processes that the restart of a role or of all leaves as they are: they are down on purpose, by `tutti drain` or the
 * autoscaler, so that a start would not be a restart. A process that is named itself is started.
 */
export const leftDown = (name: string, targets: readonly Target[]): readonly Target[] =>
  name === "all" || isProcessRole(name) ? targets.filter(({ phase }) => phase === "parked") : [];

/** Least number of characters of an actor's id that identify it. */
const PREFIX_MIN = 3;

/** The ids of all actors that the process hosts. */
export const tokensOf = ({ actor, actors }: ProcessState): readonly string[] => actors ?? [actor];

function means(name: string, target: Target): boolean {
  const { role, name: own, host } = target;
  if (name === "all" || name === role) return true;
  if (role === "node" && NODE_ROLES.some((hosted) => hosted === name)) return true;
  // A role's name means all its processes, even if one process has the same name.
  if (isProcessRole(name)) return false;
  return (
    name === own ||
    name === `${host}/${own}` ||
    (name.length >= PREFIX_MIN && tokensOf(target).some((actor) => actor !== "" && actor.startsWith(name)))
  );
}

/** Names that `means` takes, of what is there. */
const namesOf = (known: readonly Target[]): string[] => [
  ...new Set(known.flatMap(({ name, role }) => [name, role, ...(role === "node" ? NODE_ROLES : [])])),
  ...known.map(({ host, name }) => `${host}/${name}`),
  "all",
];

const listed = (known: readonly Target[]): string => {
  const names = known.map(({ name }) => name);
  return names.length > 20 ? `${names.slice(0, 20).join(", ")} and ${names.length - 20} more` : names.join(", ");
};
