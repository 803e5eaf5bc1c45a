/**
 * Which processes an operator means by `ranker`, `ranker-1`, `host-b/executor`, an actor's id or the beginning of one,
 * or `all`.
 */
import { type AgentAnswered, PROCESS_ROLES, type ProcessRole, type ProcessState } from "@tutti/protocol";
import type { ActorKey } from "@tutti/units";
import { CommandError, usageError } from "../failure.ts";
import { NODE_ROLES } from "../role/node-roles.ts";

const isProcessRole = (name: string): boolean => (PROCESS_ROLES as readonly string[]).includes(name);

export interface Target extends ProcessState {
  readonly agent: ActorKey;
  readonly host: string;
}

/**
 * Who is restarted first, where everybody is: those without whom serving goes on, and last those who take requests,
 * when all behind them are fresh. A spare goes before its leader, so that the lead moves once.
 */
const ORDER: readonly ProcessRole[] = [
  "profiler",
  "planner",
  "gateway",
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
 * @throws {CommandError} nobody or more than one is meant by a name
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
    throw new CommandError(`there is no "${name}" that an agent keeps; there are: ${listed(known)}`);
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

/** So much of an id says who is meant. */
const PREFIX_MIN = 3;

/** Of all the actors that it hosts. */
export const tokensOf = ({ actor, actors }: ProcessState): readonly string[] => actors ?? [actor];

function means(name: string, target: Target): boolean {
  const { role, name: own, host } = target;
  if (name === "all" || name === role) return true;
  if (role === "node" && NODE_ROLES.some((hosted) => hosted === name)) return true;
  // A name that is a role's means all of them, also where one process is called so.
  if (isProcessRole(name)) return false;
  return (
    name === own ||
    name === `${host}/${own}` ||
    (name.length >= PREFIX_MIN && tokensOf(target).some((actor) => actor !== "" && actor.startsWith(name)))
  );
}

const listed = (known: readonly Target[]): string => {
  const names = known.map(({ name }) => name);
  return names.length > 20 ? `${names.slice(0, 20).join(", ")} and ${names.length - 20} more` : names.join(", ");
};
