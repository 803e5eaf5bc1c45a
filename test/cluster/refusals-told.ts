import { type RefusedRequest, RefusalsAsked, RefusalsTold, subjectsOf } from "@tutti/protocol";
import { actorKey } from "@tutti/units";
import { FrameReader, FrameWriter } from "@tutti/wire";
import { expect } from "vitest";
import type { VirtualCluster } from "./virtual-cluster.ts";

const OPERATOR = actorKey(5);
const subjects = subjectsOf("main");

/** Asks a cluster of one ingress as `tutti refusals` does. @returns the newest first */
export function refusalsOf(cluster: VirtualCluster, question: Partial<RefusalsAsked> = {}): readonly RefusedRequest[] {
  const bus = cluster.network.connect({ name: "operator" });
  let told: RefusalsTold | undefined;
  const reader = new FrameReader().on(RefusalsTold, (answer) => {
    expect(RefusalsTold.accepts(answer)).toBe(true);
    told = answer;
  });
  bus.subscribe(subjects.refusalsTold(OPERATOR), ({ payload }) => void reader.read(payload));
  const writer = new FrameWriter(OPERATOR);
  writer.add(RefusalsAsked, { ask: 1, most: 100, ...question });
  bus.publish(subjects.refusals, writer.take());
  expect(cluster.runUntil(() => told !== undefined)).toBe(true);
  return told!.requests;
}
