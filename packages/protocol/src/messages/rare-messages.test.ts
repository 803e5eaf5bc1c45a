import fc from "fast-check";
import { expect, test } from "vitest";
import {
  ExecutorInventory,
  GpuJoined,
  LeadExpected,
  ModelsWanted,
  RankerAnnounced,
  ScalingAdvised,
} from "./rare-messages.ts";
import { StatsReported } from "./stats-message.ts";

const AT = 1_790_000_000_000_000;
const MODEL = { number: 3, version: "1", memoryBytes: 5_000_000 };
const GPU = { gpu: 1, freeAt: AT, epoch: 3, grantSeq: 4, subCluster: "main", serving: true, type: "cpu" };
const GOOD = {
  executorInventory: {
    ...{ executor: 77_777, gpus: [0, 1], type: "cpu", subCluster: "main" },
    ...{ memoryBytes: 5_000_000, memoryBytesMax: Number.MAX_SAFE_INTEGER, models: [MODEL] },
  },
  scalingAdvised: { at: AT, advice: -2, gpus: 4, badRate: 0.012, idleShare: 0.5 },
  rankerAnnounced: { key: 77_777, epoch: 9, subCluster: "s1" },
  leadExpected: { key: 77_777, epoch: 8, subCluster: "s1" },
  modelsWanted: { numbers: [3, 7] },
  gpuJoined: { executor: 77_777, epoch: 9, gpus: [GPU] },
  statsReported: {
    ...{ key: 77_777, role: "ingress", at: AT, figures: { ok: 1, meanUs: 0.5 } },
    perThread: [{ thread: 64, name: "m", figures: { ok: 1 } }],
    perGpu: [{ gpu: 1, figures: {} }],
    perPart: [{ kind: "stage", of: "p", name: "s", figures: {} }],
    pipelines: [
      {
        ...{ name: "p", version: "1", slo: 5_000, stages: [{ name: "s", model: "m" }], outputs: [] },
        inputs: [{ name: "image", datatype: "UINT8", shape: [-1] }],
      },
    ],
    refusals: "not read here",
  },
} as const;
const BAD: Readonly<Record<keyof typeof GOOD, readonly [string, unknown][]>> = {
  executorInventory: [
    ["executor", 0],
    ["gpus", [65_536]],
    ["gpus", "all"],
    ["subCluster", "a.b"],
    ["subCluster", undefined],
    ["memoryBytes", -1],
    ["memoryBytesMax", Infinity],
    ["models", [{ ...MODEL, memoryBytes: NaN }]],
    ["models", [{ ...MODEL, version: 1 }]],
    ["models", Array.from({ length: 4_097 }, () => MODEL)],
    ["models", [null]],
  ],
  scalingAdvised: [
    ["at", "now"],
    ["advice", NaN],
    ["advice", Infinity],
    ["gpus", -1],
    ["badRate", undefined],
    ["idleShare", "0.5"],
  ],
  rankerAnnounced: [
    ["subCluster", ""],
    ["subCluster", 7],
    ["epoch", -1],
  ],
  leadExpected: [
    ["subCluster", ""],
    ["key", "7"],
    ["epoch", 0.5],
  ],
  modelsWanted: [
    ["numbers", undefined],
    ["numbers", [-1]],
    ["numbers", [2 ** 25]],
    ["numbers", Array.from({ length: 4_097 }, (_, i) => i)],
  ],
  gpuJoined: [
    ["gpus", [{ ...GPU, subCluster: undefined }]],
    ["gpus", [{ ...GPU, subCluster: "a b" }]],
  ],
  statsReported: [
    ["role", "king"],
    ["at", NaN],
    ["figures", undefined],
    ["figures", { ok: Infinity }],
    ["figures", [1]],
    ["perThread", 5],
    ["perThread", [{ thread: -1, name: "m", figures: {} }]],
    ["perThread", [{ thread: 1, name: 7, figures: {} }]],
    ["perGpu", [{ gpu: 70_000, figures: {} }]],
    ["perPart", [{ kind: "other", of: "p", name: "s", figures: {} }]],
    ["pipelines", [{ name: "a.b", version: "1", slo: 5_000, stages: [], inputs: [], outputs: [] }]],
    ["pipelines", [{ name: "p", version: "1", slo: 5_000, stages: [], inputs: [{ name: "x" }], outputs: [] }]],
  ],
};

const TYPES = {
  executorInventory: ExecutorInventory,
  scalingAdvised: ScalingAdvised,
  rankerAnnounced: RankerAnnounced,
  leadExpected: LeadExpected,
  modelsWanted: ModelsWanted,
  gpuJoined: GpuJoined,
  statsReported: StatsReported,
};

test("messages about sub-clusters and memory are believed as their senders write them, and in no other form (T8)", () => {
  for (const [name, good] of Object.entries(GOOD)) {
    const check = TYPES[name as keyof typeof GOOD].accepts;
    expect(check(good), name).toBe(true);
    for (const [key, value] of BAD[name as keyof typeof GOOD])
      expect(check({ ...good, [key]: value }), `${name}.${key}: ${String(value)}`).toBe(false);
    expect(check({}), name).toBe(false);
  }
  fc.assert(fc.property(fc.anything(), (value) => !StatsReported.accepts(value)));
});
