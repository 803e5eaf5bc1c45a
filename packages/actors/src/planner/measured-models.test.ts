import type { ModelSpec, ModelStatus } from "@tutti/protocol";
import { instant, micros, millis } from "@tutti/units";
import { expect, test } from "vitest";
import type { ClusterState } from "./cluster-state.ts";
import type { LoadStats } from "./load-stats.ts";
import { measureModels } from "./measured-models.ts";

test("types of executors count as they run now, those that haven't moved as measured, and unfit ones not at all", () => {
  const at = (latency: number) => [[{ batchSize: 1, latency: micros(latency) }]];
  const spec = { name: "m", number: 1, slo: millis(50), batchSizeMax: 1, buckets: [{}] } as unknown as ModelSpec;
  const byType = [
    { type: "moved", profiles: at(2_000), means: [], live: at(3_000) },
    { type: "steady", profiles: at(8_000), means: [] },
    { type: "unfit", profiles: at(90_000), means: [], unfit: true },
  ];
  const status = { state: "ready", profiles: at(8_000), means: [], byType } as unknown as ModelStatus;
  const cluster = { sizeOf: () => undefined } as unknown as ClusterState;
  const loads = { models: () => new Map(), threads: () => new Map() } as unknown as LoadStats;
  const [measured] = measureModels([{ spec, status } as never], cluster, loads, instant(0));
  const types = [...measured!.shares[0]!.byType!].map(([type, table]) => [type, table?.byBatchSize[1]]);
  expect(types).toEqual([
    ["moved", 3_000],
    ["steady", 8_000],
    ["unfit", undefined],
  ]);
});
