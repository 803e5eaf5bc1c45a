/**
 * Figures that ingresses report of variants, pipelines and stages, on whole clusters in virtual time. A stage's model
 * may be a family's variant.
 */
import { BUCKET, type FamilySpec, type ModelSpec, StatsReported, subjectsOf, variantInput } from "@tutti/protocol";
import { inlineSteps } from "@tutti/ports/steps";
import { type ActorKey, millis, seconds } from "@tutti/units";
import { FrameReader, toJson } from "@tutti/wire";
import { expect, test } from "vitest";
import { echoModel } from "../fixtures/actor-cluster/echo-model.ts";
import { findAndRead, scalar } from "./find-and-read.ts";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { VirtualClusterOptions } from "./virtual-cluster-options.ts";

const VARIANTS = ["head-a", "head-b"] as const;

/** Two stages, the second of which sends three requests for each one; both models are variants of one family. */
const CHAIN = findAndRead({
  ...{ name: "chain", slo: "300ms", models: VARIANTS },
  before: ["./f.ts#one", "./f.ts#three"],
  finish: "./f.ts#answer",
});

function family(latencyMs: number): ModelSpec {
  const slo = millis(200);
  const plain = echoModel({ name: "heads", number: 900, slo, batchSizeMax: 16, latency: (b) => millis(latencyMs + b) });
  const variants = VARIANTS.map((name): FamilySpec["variants"][number] => ({
    ...{ name, version: "1", slo },
    outputs: [{ name: `y of ${name}`, type: "FP32", dims: ["batch", 1] }],
  }));
  const pace = { prefix: { alphaMs: 0.9, betaMs: latencyMs }, suffix: { alphaMs: 0.1, betaMs: 0 } };
  return { ...plain, inputs: [...plain.inputs, variantInput()], outputs: [], family: { variants, pace } };
}

type Parts = NonNullable<StatsReported["perPart"]>;
function serving(latencyMs: number, options: VirtualClusterOptions = {}) {
  const steps = inlineSteps({
    "./f.ts#one": () => scalar(1),
    "./f.ts#three": () => [1, 2, 3].map((value) => scalar(value)),
    "./f.ts#answer": ({ stages }) => scalar(stages["read"]!.length, "y"),
  });
  const cluster = new VirtualCluster({ gpus: 2, ...options, pipelines: { specs: [CHAIN], steps } });
  cluster.store.put(BUCKET.models, "heads", toJson(family(latencyMs)), () => undefined);
  const latest = new Map<ActorKey, Parts>();
  const reader = new FrameReader().on(StatsReported, ({ key, perPart = [] }) => void latest.set(key, perPart));
  const listener = cluster.network.connect({ name: "listener" });
  listener.subscribe(subjectsOf("main").stats("ingress"), ({ payload }) => void reader.read(payload));
  cluster.run(seconds(2));
  const figuresOf = (kind: string, name: string): Record<string, number> => {
    const sums: Record<string, number> = {};
    for (const part of [...latest.values()].flat())
      if (part.kind === kind && part.name === name)
        for (const [figure, value] of Object.entries(part.figures)) sums[figure] = (sums[figure] ?? 0) + value;
    return sums;
  };
  return { cluster, figuresOf };
}

test("stages whose models are variants of a family are answered, and each part's requests are told", () => {
  const { cluster, figuresOf } = serving(5);
  const asked = Array.from({ length: 4 }, () => cluster.ask("chain", { sloMs: 300 }));
  const direct = cluster.ask("head-b", { sloMs: 200 });
  cluster.run(seconds(3));
  expect([...asked, direct].map((one) => one.outcomes.map(({ status }) => status))).toEqual(Array(5).fill(["ok"]));
  expect(asked[0]!.outcomes[0]!.value).toBe(3);
  expect(figuresOf("pipeline", "chain")).toMatchObject({ offered: 4, ok: 4, late: 0, refused: 0 });
  expect(figuresOf("stage", "find")).toMatchObject({ offered: 4, ok: 4, late: 0 });
  expect(figuresOf("stage", "read")).toMatchObject({ offered: 12, ok: 12, late: 0 });
  expect(figuresOf("variant", "head-a")).toMatchObject({ offered: 4, ok: 4, refused: 0 });
  expect(figuresOf("variant", "head-b")).toMatchObject({ offered: 13, ok: 13, refused: 0 });
});

test("a whole that is refused counts once, for the stage that refused it and its cause", () => {
  const { cluster, figuresOf } = serving(40);
  const asked = Array.from({ length: 60 }, () => cluster.ask("chain", { sloMs: 250 }));
  cluster.run(seconds(3));
  const refused = asked.filter(({ outcomes }) => outcomes[0]?.status !== "ok");
  expect(refused.length).toBeGreaterThan(5);
  const [whole, find, read] = [figuresOf("pipeline", "chain"), figuresOf("stage", "find"), figuresOf("stage", "read")];
  expect(whole).toMatchObject({ offered: 60, refused: refused.length, ok: 60 - refused.length });
  expect((find["refused"] ?? 0) + (read["refused"] ?? 0)).toBe(refused.length);
  const blamed = (stage: string): number =>
    refused.filter(({ outcomes }) => outcomes[0]!.text.startsWith(`stage ${stage}`)).length;
  expect([find["refused"] ?? 0, read["refused"] ?? 0]).toEqual([blamed("find"), blamed("read")]);
});
