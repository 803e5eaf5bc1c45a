import type { ListedModel } from "@tutti/client/registries";
import { type ModelSpec, type ModelStatus } from "@tutti/protocol";
import { type Instant, millis } from "@tutti/units";
import { expect, test } from "vitest";
import { modelsAsJson, renderModels } from "./model-table.ts";

const since = (Date.UTC(2026, 0, 2, 3, 4, 5) * 1_000) as Instant;
function listed(name: string, parked?: ListedModel["parked"]): ListedModel {
  const spec = {
    name,
    number: 1,
    version: "1",
    slo: millis(30),
    batchSizeMax: 8,
    buckets: [{}],
  } as unknown as ModelSpec;
  const status = { state: "ready", reason: "", profiles: [], means: [], executorTypes: ["onnx-cpu"] };
  return { spec, status: status as unknown as ModelStatus, ...(parked !== undefined && { parked }) };
}
const MODELS = [listed("used"), listed("asleep", { since }), listed("waking", { since, next: "main" })];

test("a parked model is shown as parked, with the time since when, and one that is being loaded as waking", () => {
  const text = renderModels(MODELS);
  expect(text).toMatch(/^used +1 +ready/m);
  expect(text).toMatch(/^asleep +1 +parked/m);
  expect(text).toMatch(/^waking +1 +waking/m);
  expect(text).toContain("asleep: parked since 2026-01-02T03:04:05.000Z: its next request wakes it");
  expect(text).toContain("waking: parked since 2026-01-02T03:04:05.000Z: executors of main load it");
});

test("programs read the state, and since when", () => {
  expect(modelsAsJson(MODELS)).toMatchObject([
    { state: "ready" },
    { state: "parked", parkedSince: "2026-01-02T03:04:05.000Z" },
    { state: "waking", parkedSince: "2026-01-02T03:04:05.000Z" },
  ]);
});

test("programs read what each type of accelerators takes where types were measured apart", () => {
  const byType = ["onnx-cuda-h200", "onnx-cuda-tesla-t4"].map((type) => ({ type, profiles: [], means: [] }));
  const { spec, status } = listed("used");
  expect(modelsAsJson([{ spec, status: { ...status!, byType } }, listed("alike")])).toEqual([
    expect.objectContaining({ name: "used", byType }),
    expect.not.objectContaining({ byType: expect.anything() as unknown }),
  ]);
});
