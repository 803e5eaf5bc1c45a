/** Groups actors by the process that they share: it is restarted as a whole. Pure. */
import type { FeedActor } from "../src/feed.ts";

export interface ProcessRow {
  readonly key: string;
  /** The name that its supervisor gives it, else its roles. */
  readonly name: string;
  readonly actors: readonly FeedActor[];
  /** The actor by whose id it is restarted; undefined: none was heard. */
  readonly restartBy: FeedActor | undefined;
}

/** @returns processes and their actors in the order in which they are first there */
export function processRows(actors: readonly FeedActor[]): ProcessRow[] {
  const groups = new Map<string, FeedActor[]>();
  for (const actor of actors) {
    const key = `${actor.host} ${actor.pid} ${actor.process}`;
    groups.set(key, [...(groups.get(key) ?? []), actor]);
  }
  return [...groups].map(([key, its]) => ({
    key,
    name: its[0]!.process || its.map(({ role }) => role).join(", "),
    actors: its,
    restartBy: its.find(({ actor }) => actor !== ""),
  }));
}

/** The effect of a restart of a role, where it has its process to itself. */
const MEANS: Readonly<Record<string, string>> = {
  executor: "It ends the batches that it has; its accelerators serve nothing until it is back.",
  ranker: "A spare takes the lead in milliseconds.",
  batcher: "Other batchers take its models; requests that wait are told again.",
  ingress: "It answers what it has; others take what comes. Where it is the only one, a new one is started first.",
  gateway: "This page loses its connection for a moment: it runs here.",
};

export function restartMeans({ actors }: Pick<ProcessRow, "actors">): string {
  if (actors.length === 1) return `No request is lost by it. ${MEANS[actors[0]!.role] ?? "Serving goes on meanwhile."}`;
  const roles = actors.map(({ role }) => role).join(", ");
  const gateway = actors.some(({ role }) => role === "gateway") ? ` ${MEANS["gateway"]}` : "";
  return `It is ${roles} at once. Others of these roles take over; where there are none, nothing is served until it is back.${gateway}`;
}
