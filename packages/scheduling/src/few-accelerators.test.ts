import { LatencyTable } from "@tutti/profile";
import { type Instant, Prng, micros, millis, threadId } from "@tutti/units";
import { expect, test } from "vitest";
import { AcceptedGrants } from "./model-thread/accepted-grants.ts";
import { Cluster } from "./lockstep/cluster.ts";
import type { Request } from "./messages.ts";
import type { ModelThreadConfig } from "./model-thread/model-thread-state.ts";
import { Scarcity } from "./adaptation/scarcity.ts";

const at = (us: number): Instant => us as Instant;

test("a model learns how long it waits for others' runs; a wait for its own counts as none", () => {
  const scarcity = new Scarcity();
  expect(scarcity.blocked).toBe(0);
  scarcity.note(at(0), 1_024, 6_000, 9_000);
  expect(scarcity.blocked).toBe(6_000);
  scarcity.note(at(0), 512, 2_000, 9_000);
  expect(scarcity.blocked).toBe(4_000);
  scarcity.note(at(0), 512, 8_000, 9_000, true);
  expect(scarcity.blocked).toBe(2_000);
  scarcity.note(at(0), 512, -1, 9_000); // who found one free says nothing about waits
  expect(scarcity.blocked).toBe(2_000);
});

test("where next to no request finds an accelerator free, waits for others' runs tell of a lack and count less", () => {
  const scarcity = new Scarcity();
  for (let i = 0; i < 4; i++) scarcity.note(at(0), 512, 6_000, 9_000);
  expect(scarcity.blocked).toBe(6_000 * Math.min(1, 0.5 ** 3 / 0.1)); // the first batch alone tells nothing
  for (let i = 0; i < 2; i++) scarcity.note(at(0), 512, 6_000, 9_000);
  expect(scarcity.blocked).toBeCloseTo((6_000 * 0.5 ** 5) / 0.1);
  scarcity.note(at(0), 512, -1, 9_000);
  expect(scarcity.blocked).toBe(6_000);
});

test("a run is a model's own where its newest grant of the accelerator is the one before", () => {
  const accepted = new AcceptedGrants();
  const grant = (grantSeq: number, epoch = 1) => ({ gpu: 3, epoch, grantSeq, validUntil: at(10) }) as never;
  expect(accepted.hadOneBefore(grant(7))).toBe(false);
  accepted.accept(at(0), grant(7));
  expect([8, 9].map((seq) => accepted.hadOneBefore(grant(seq)))).toEqual([true, false]);
  expect(accepted.hadOneBefore(grant(8, 2))).toBe(false);
});

test("two models share one accelerator at nine tenths of what it can do, and lose next to nothing", () => {
  const models = [
    { slo: 50, alpha: 1_000, beta: 5_000 },
    { slo: 20, alpha: 200, beta: 2_000 },
  ];
  const RATE = 330e-6; // of each, 1/µs
  const sent = [0, 0];
  const served = [0, 0];
  const cluster = new Cluster({
    gpus: 1,
    models: models.map(({ slo, alpha, beta }, number): ModelThreadConfig => ({
      ...{ thread: threadId(number, 0), term: 1, epoch: 1, slo: millis(slo), patience: 1, gather: "target" },
      ...{ profile: LatencyTable.affine({ alpha, beta, batchSizeMax: 64 }), prefer: "latency" },
      ...{ guard: micros(0), ctrl: micros(0), perItem: micros(0), respond: micros(0) },
      ...{ queueMax: 1_000, batchesInFlightMax: 1_000, policy: { kind: "adaptive" } },
    })),
    listener: {
      dispatched: ({ thread, requests }) => {
        served[thread === threadId(0, 0) ? 0 : 1]! += requests.length;
      },
    },
  });
  const prng = new Prng(3);
  const due = [0, 0];
  for (let seq = 1; Math.min(...due) < 20_000_000; seq++) {
    const which = due[0]! <= due[1]! ? 0 : 1;
    const slo = millis(models[which]!.slo);
    const now = Math.round(due[which]!);
    due[which]! += prng.nextExponential(RATE);
    sent[which]!++;
    const request = { ingress: 1, seq, deadline: now + slo, arrivedAt: now, slo, app: 0, size: 0 };
    cluster.arrive(which, request as unknown as Request);
  }
  cluster.runUntilIdle();
  const bad = sent.map((count, i) => 1 - served[i]! / count);
  expect(Math.max(...bad)).toBeLessThan(0.01);
});
