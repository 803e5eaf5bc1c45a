/**
 * A model whose first run never ends. It holds one accelerator, until the run is overdue by its SLO, and is quarantined
 * then: other tries would hold and end one executor after the other.
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
function begun(executors: number, fault: EmulatedFault = { kind: "hang" }) {
  const runs: { readonly batchSize: number; readonly at: Instant }[] = [];
  const cluster: VirtualCluster = new VirtualCluster({
    ...{ executors, gpus: executors, restartAfter: millis(500), policy: { kind: "eager" } },
    fault: (_gpu, _, { model, batchSize }): EmulatedFault | undefined => {
      if (model !== ENDLESS.name) return undefined;
      runs.push({ batchSize, at: cluster.clock.now() });
      return fault;
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
  expect(quarantineOf(cluster)).toMatch(
    /^one row takes too long for its SLO of 50 ms \(a run of endless has not ended/,
  );
  expect(runs.map(({ batchSize }) => batchSize)).toEqual([1]);
  // Batches granted to the accelerator before it was known to be overdue wait behind the run.
  const lost = asked.filter(({ outcomes }) => outcomes[0]?.status !== "ok");
  expect(lost.length).toBeLessThan(asked.length / 50);
});

test("the only executor is held once for seconds, and requests for the model are told why", () => {
  const { cluster, loadedAt } = begun(1);
  expect(cluster.runUntil(() => quarantineOf(cluster) !== "", seconds(20))).toBe(true);
  expect(cluster.clock.now() - loadedAt).toBeLessThan(seconds(11));
  cluster.run(seconds(2)); // the executor is back
  const late = cluster.ask(ENDLESS.name);
  const other = cluster.ask(OTHER.name);
  cluster.run(millis(200));
  expect(late.outcomes[0]).toMatchObject({
    status: "TUTTI_NOT_READY",
    text: expect.stringMatching(/is quarantined: one row takes too long .* load it with a larger SLO/),
  });
  expect(other.outcomes[0]?.status).toBe("ok");
});

test("one whose first run crashes its executor is tried three times, one after the other, and requests are told of each", () => {
  const { cluster, runs } = begun(2, { kind: "batch", reason: "device lost", fault: true });
  cluster.run(seconds(1));
  const early = cluster.ask(ENDLESS.name);
  cluster.run(millis(200));
  expect(early.outcomes[0]).toMatchObject({
    status: "TUTTI_NOT_READY",
    text: expect.stringMatching(/still being prepared .*it crashed a run on virtual, .* \(1 of the 3 times/),
  });
  cluster.run(seconds(12));
  expect(quarantineOf(cluster)).toContain("3 times in a row");
  expect(runs.map(({ batchSize }) => batchSize)).toEqual([1, 1, 1]);
  // The next begins only when the accelerator of the one before is back.
  for (const [i, { at }] of runs.entries()) if (i > 0) expect(at - runs[i - 1]!.at).toBeGreaterThan(seconds(2));
});
