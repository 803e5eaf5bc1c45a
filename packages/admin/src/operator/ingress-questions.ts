/** An operator's question to every ingress about requests that were refused or answered late. */
import { randomInt } from "node:crypto";
import type { Bus } from "@tutti/ports/bus";
import { RefusalsAsked, RefusalsTold, subjectsOf } from "@tutti/protocol";
import { ACTOR_KEY_MAX, type ActorKey, actorKey } from "@tutti/units";
import { FrameReader, FrameWriter } from "@tutti/wire";
import type { ClusterView } from "./cluster-view.ts";

const REPEAT_MS = 500;

export interface IngressAnswers {
  readonly answers: readonly RefusalsTold[];
  /** Ingresses that are there and did not answer in time. */
  readonly silent: readonly ActorKey[];
}

/**
 * Asks all ingresses at once, and again until all of them are known and have answered. Those that are not known yet
 * hear the question too.
 *
 * @param options.view - listens already, so that it knows which ingresses there are
 */
export async function askIngresses(
  bus: Bus,
  question: Omit<RefusalsAsked, "ask">,
  { cluster, view, waitMs }: { readonly cluster: string; readonly view: ClusterView; readonly waitMs: number },
): Promise<IngressAnswers> {
  const subjects = subjectsOf(cluster);
  const self = actorKey(randomInt(1, ACTOR_KEY_MAX - 1));
  const answers = new Map<ActorKey, RefusalsTold>();
  const missing = (): ActorKey[] =>
    view.actors().flatMap(({ key, beat }) => (beat.role === "ingress" && !answers.has(key) ? [key] : []));
  const isWhole = (): boolean => view.knowsAll && answers.size > 0 && missing().length === 0;
  const reader = new FrameReader().on(RefusalsTold, (told, sender) => {
    if (sender !== told.ingress || !RefusalsTold.accepts(told)) return;
    answers.set(sender, told);
    view.recheck();
  });
  const ask = (): void => {
    const writer = new FrameWriter(self);
    writer.add(RefusalsAsked, { ask: 1, ...question });
    bus.publish(subjects.refusals, writer.take());
  };
  const listening = bus.subscribe(subjects.refusalsTold(self), ({ payload }) => void reader.read(payload));
  const asking = setInterval(ask, REPEAT_MS);
  try {
    ask();
    await view.until(isWhole, waitMs);
    return { answers: [...answers.values()], silent: missing() };
  } finally {
    clearInterval(asking);
    listening.stop();
  }
}
