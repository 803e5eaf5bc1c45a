/** Requests that a gateway passes to the ingress of its own process, without a message (docs/architecture.md, 1). */
import type { LocalActors } from "@tutti/actors";
import { type Tensor, TuttiError } from "@tutti/protocol";
import { micros, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { VirtualClusterOptions } from "./virtual-cluster-options.ts";

const FAST = { name: "fast", alphaMs: 1, betaMs: 4, sloMs: 200 };

function serving(options: VirtualClusterOptions = {}) {
  const cluster = new VirtualCluster({ policy: { kind: "deferred" }, ...options });
  const local: LocalActors = {};
  cluster.addModel(FAST);
  cluster.startIngress("near", local);
  cluster.run(seconds(3)); // Its own warm-up runs first.
  const outcomes: string[] = [];
  const ask = (value: number, more: { target?: string; sloMs?: number; bytes?: number } = {}) => {
    const { target = "fast", sloMs = 200, bytes = 4 } = more;
    const data = new Uint8Array(bytes);
    new Float32Array(data.buffer, 0, 1)[0] = value;
    const tensors: Tensor[] = [{ name: "x", type: "FP32", dims: [1, bytes / 4], data }];
    const terms = { id: undefined, version: undefined, priority: undefined, size: undefined, wanted: undefined };
    const slo = micros(sloMs * 1_000);
    const request = { ...terms, target, app: "test", tensors, slo, traceparent: undefined };
    return local.ingress!.ask(request, (outcome) =>
      outcomes.push(outcome instanceof TuttiError ? outcome.code : String(firstOf(outcome.outputs))),
    );
  };
  return { cluster, local, ask, outcomes };
}

function firstOf([output]: readonly Tensor[]): number {
  const { data } = output!;
  return new DataView(data.buffer, data.byteOffset, 4).getFloat32(0, true);
}

test("each hears its own outputs, once (T1, T2)", () => {
  const { cluster, ask, outcomes } = serving();
  for (const value of [11, 12, 13]) ask(value);
  expect(outcomes).toEqual([]);
  cluster.run(millis(300));
  expect(outcomes.sort()).toEqual(["11", "12", "13"]);
});

test("what is refused says why at once, as for any other publisher", () => {
  const { ask, outcomes } = serving();
  ask(1, { target: "nobody" });
  ask(1, { bytes: 8 });
  ask(1, { sloMs: 1 });
  ask(1, { bytes: 8_000_000 });
  expect(outcomes).toEqual(["TUTTI_NOT_FOUND", "TUTTI_INVALID_INPUT", "TUTTI_DEADLINE_INFEASIBLE", "TUTTI_TOO_LARGE"]);
});

test("a request that is cancelled before it runs never runs, and has one outcome", () => {
  let runs = 0;
  const { cluster, ask, outcomes } = serving({ gpus: 1, fault: () => void runs++ });
  runs = 0;
  const call = ask(1);
  cluster.run(millis(5));
  call!.cancel();
  cluster.run(millis(300));
  expect(outcomes).toEqual(["TUTTI_CANCELLED"]);
  expect(runs).toBe(0);
});

test("where the batch is lost, the ingress' timer answers at the deadline (INGRESS-1)", () => {
  const { cluster, ask, outcomes } = serving({ gpus: 1, executors: 1, policy: { kind: "eager" }, runTimes: () => 20 });
  ask(1);
  cluster.run(millis(10));
  cluster.kill("executor-0");
  cluster.run(millis(300));
  expect(outcomes).toHaveLength(1);
  expect(outcomes[0]).toMatch(/^TUTTI_/);
});

test("an ingress that leaves takes no more, and answers what it has", () => {
  const { cluster, local, ask, outcomes } = serving();
  ask(7);
  cluster.drain("near");
  expect(local.ingress).toBeUndefined();
  cluster.run(millis(300));
  expect(outcomes).toEqual(["7"]);
});
