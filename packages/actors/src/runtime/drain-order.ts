import type { Role } from "@tutti/protocol";
import type { Actor } from "./ports.ts";

/**
 * Stages of a drain: roles that take requests end first, then those that serve them. Each stage begins when the one
 * before has ended.
 */
const STAGES: readonly (readonly Role[])[] = [
  ["gateway", "jobs"],
  ["ingress"],
  ["batcher"],
  ["ranker", "profiler", "planner", "executor"],
];

/** Drains all actors of a process, so that none ends while another one here still needs it. */
export function drainInOrder(actors: readonly Actor[], done: () => void, stage = 0): void {
  const roles = STAGES[stage];
  if (roles === undefined) return done();
  const next = (): void => drainInOrder(actors, done, stage + 1);
  const ending = actors.filter(({ role }) => roles.includes(role));
  let left = ending.length;
  if (left === 0) return next();
  for (const actor of ending)
    actor.drain(() => {
      if (--left === 0) next();
    });
}
