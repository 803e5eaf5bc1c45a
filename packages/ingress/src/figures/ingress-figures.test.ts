import { type ModelSpec, type ResultBatch, TuttiError } from "@tutti/protocol";
import { type Instant, millis } from "@tutti/units";
import { expect, test } from "vitest";
import type { CatalogModel } from "@tutti/actors/runtime";
import type { PendingRequest } from "../requests/pending-request.ts";
import { IngressFigures } from "./ingress-figures.ts";
import { pendingRequest } from "../testing/pending-request.ts";

const at = (ms: number): Instant => (1_000_000 + millis(ms)) as Instant;
const spec = (name: string, number: number): ModelSpec => ({ name, number, buckets: [{}] }) as unknown as ModelSpec;
const held = (model: ModelSpec, arrivedAt: Instant, deadline: Instant): PendingRequest =>
  pendingRequest({ model: { spec: model } as CatalogModel, arrivedAt, deadline });
const NOW = {
  held: 0,
  bytes: 0,
  respondUs: 0,
  answersKept: 0,
  answersRepeated: 0,
  answersLost: 0,
  routes: 0,
  fellBack: 0,
  pipelineInstances: 0,
  warmModels: 0,
};

const answered = (now: Instant) => ({ error: undefined, by: "ingress" as const, now, results: undefined });

test("every request is counted in all and under its own model, answered or refused with its cause", () => {
  const figures = new IngressFigures();
  const [mlp, ocr] = [spec("mlp", 1), spec("ocr", 2)];
  for (let i = 1; i <= 100; i++) {
    figures.accept(mlp);
    figures.settle(held(mlp, at(0), at(100)), answered(at(i)));
  }
  figures.accept(ocr);
  figures.settle(held(ocr, at(0), at(100)), { ...answered(at(5)), error: new TuttiError("TUTTI_OVERLOADED", "") });
  figures.refuseAtTheDoor(new TuttiError("TUTTI_DEADLINE_INFEASIBLE", ""), ocr);
  figures.refuseAtTheDoor(new TuttiError("TUTTI_NOT_FOUND", ""), undefined);
  const report = figures.report({ at: at(100), ...NOW });
  expect(report.figures).toMatchObject({ ok: 100, refused: 3, "refused.TUTTI_NOT_FOUND": 1 });
  expect(report.perThread).toMatchObject([
    { name: "mlp", figures: { offered: 100, ok: 100, late: 0, refused: 0 } },
    { name: "ocr", figures: { offered: 2, ok: 0, refused: 2, "refused.TUTTI_OVERLOADED": 1 } },
  ]);
  const p99 = report.perThread?.[0]?.figures["p99Us"];
  expect(p99).toBeGreaterThanOrEqual(99_000);
  expect(p99).toBeLessThan(105_000);
});

test("the part of a request's time until its run started is queue time, and none where the clocks disagree", () => {
  const figures = new IngressFigures();
  const mlp = spec("mlp", 1);
  for (const startedMs of [4, 5, 0]) {
    figures.accept(mlp);
    const results = { startedAt: at(startedMs) } as ResultBatch;
    figures.settle(held(mlp, at(1), at(100)), { ...answered(at(11)), results });
  }
  const { perThread } = figures.report({ at: at(11), ...NOW });
  expect(perThread).toMatchObject([{ figures: { ok: 3, latencyUs: 30_000, queueUs: 7_000 } }]);
});

test("a model that was unloaded is forgotten, also by requests of it that end later", () => {
  const figures = new IngressFigures();
  const mlp = spec("mlp", 1);
  figures.accept(mlp);
  figures.forget(mlp);
  figures.settle(held(mlp, at(0), at(100)), answered(at(5)));
  const { figures: all, perThread } = figures.report({ at: at(10), ...NOW });
  expect([all["ok"], perThread]).toEqual([1, []]);
});
