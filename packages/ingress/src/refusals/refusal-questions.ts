import type { Bus, Subscription } from "@tutti/ports/bus";
import { RefusalsAsked, RefusalsTold } from "@tutti/protocol";
import { FrameReader, FrameWriter } from "@tutti/wire";
import type { ActorKey } from "@tutti/units";
import type { ActorRuntime } from "@tutti/actors/runtime";
import type { RefusalLog } from "./refusal-log.ts";

/**
 * Answers operators' questions about the requests in the log. They have a reader of their own: who may ask may not send
 * the ingress any other message.
 */
export function answerRefusalQuestions(options: {
  readonly runtime: Pick<ActorRuntime, "subjects" | "faults">;
  readonly key: ActorKey;
  readonly bus: Bus;
  readonly log: RefusalLog;
}): Subscription {
  const { runtime, key, bus, log } = options;
  const { subjects } = runtime;
  const countFault = (): void => void runtime.faults++;
  const reader = new FrameReader().on(RefusalsAsked, (asked, operator) => {
    if (!RefusalsAsked.accepts(asked)) return countFault();
    const { seen, left } = log;
    const writer = new FrameWriter(key);
    writer.add(RefusalsTold, { ask: asked.ask, ingress: key, ...log.find(asked), seen, left });
    bus.publish(subjects.refusalsTold(operator), writer.take());
  });
  return bus.subscribe(subjects.refusals, ({ payload }) => {
    if (reader.read(payload) !== undefined) countFault();
  });
}
