/**
 * A model whose first run never ends. It holds one accelerator at a time, until the run is overdue by its SLO, and
 * after a few such runs it is quarantined.
 */
import type { EmulatedFault } from "@tutti/ports/engine";
import { BUCKET, type ModelFaults, faultKeys } from "@tutti/protocol";
import { type Instant, millis, seconds } from "@tutti/units";
import { fromJson } from "@tutti/wire";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";

const OTHER = { name: "other", alphaMs: 1, betaMs: 4, sloMs: 50 };
const ENDLESS = { name: "endless", alphaMs: 1, betaMs: 4, sloMs: 50, isUnmeasured: true };

/** Executors with one accelerator each, which serve `other` when `endless` is loaded. */
function begun(executors: number) {
  const runs: { readonly gpu: number; readonly at: Instant; readonly batchSize: number }[] = [];
  const cluster: VirtualCluster = new VirtualCluster({
    ...{ executors, gpus: executors, restartAfter: millis(500), policy: { kind: "eager" } },
    fault: (gpu, _, { model, batchSize }): EmulatedFault | undefined => {
      if (model !== ENDLESS.name) return undefined;
      runs.push({ gpu, batchSize, at: cluster.clock.now() });
      return { kind: "hang" };
    },
  });
  cluster.addModel(OTHER);
  cluster.run(seconds(2));
  const loadedAt = cluster.clock.now();
  cluster.addModel(ENDLESS);
  return { cluster, runs, loadedAt };
}

function quarantineOf(cluster: VirtualCluster): string {
  let found = "";
  cluster.store.get(BUCKET.profiles, faultKeys.model(2), (result) => {
    if (result !== "absent" && !("failure" in result)) found = (fromJson(result.value) as ModelFaults).quarantined;
  });
  cluster.run(millis(1));
  return found;
}

test("with another executor the other models are served all the while", () => {
  const { cluster, runs } = begun(2);
  const asked = cluster.load(OTHER.name, { rate: 60, duration: seconds(18), sloMs: 50 });
  cluster.run(millis(200));
  expect(quarantineOf(cluster)).toContain("hung in a run");
  // Runs follow one another: the next begins only when the accelerator of the one before is back.
  expect(runs.map(({ batchSize }) => batchSize)).toEqual([1, 1, 1]);
  for (const [i, { at }] of runs.entries()) if (i > 0) expect(at - runs[i - 1]!.at).toBeGreaterThan(seconds(5));
  // Batches granted to the accelerator before it was known to be overdue wait behind the run.
  const lost = asked.filter(({ outcomes }) => outcomes[0]?.status !== "ok");
  expect(lost.length).toBeLessThan(asked.length / 50);
});

test("the only executor is held for seconds in all, not for minutes, and requests for the model are told why", () => {
  const { cluster, runs, loadedAt } = begun(1);
  cluster.run(seconds(5));
  const early = cluster.ask(ENDLESS.name);
  cluster.run(millis(200));
  expect(early.outcomes).toMatchObject([{ status: "TUTTI_NOT_READY" }]);
  expect(early.outcomes[0]!.text).toMatch(
    /still being prepared .*it hung in a run on virtual, accelerator 0 \(1 of the 3 times/,
  );
  expect(cluster.runUntil(() => runs.length === 3, seconds(20))).toBe(true);
  cluster.run(seconds(4));
  expect(quarantineOf(cluster)).toContain("3 times in a row");
  expect(cluster.clock.now() - loadedAt).toBeLessThan(seconds(20));
  const late = cluster.ask(ENDLESS.name);
  const other = cluster.ask(OTHER.name);
  cluster.run(millis(200));
  expect(late.outcomes[0]).toMatchObject({
    status: "TUTTI_NOT_READY",
    text: expect.stringContaining("is quarantined"),
  });
  expect(other.outcomes[0]?.status).toBe("ok");
});
