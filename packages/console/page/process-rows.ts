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
