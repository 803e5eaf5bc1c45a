import { expect, test } from "vitest";
import { capped } from "./capped.ts";
import { clipper } from "./clipper.ts";
import { clockwork } from "./clockwork.ts";
import { eagerLeastLatest } from "./eager-least-latest.ts";
import { nexus } from "./nexus.ts";
import { shepherd } from "./shepherd.ts";
import { staticShares } from "./static-share.ts";
import { type Arrival, burst, model, run } from "./testing/recorded-run.ts";
import { triton } from "./triton.ts";

/** l(b) = b + 5 ms. */
const plain = (slo: number) => model("a", { alpha: 1, beta: 5, slo });
const one = (slo: number) => ({ models: [plain(slo)] });
const at = (...times: number[]): Arrival[] => times.map((time) => ({ at: time }));

test("shepherd preempts for a batch three times as large, and what it stopped joins in", () => {
  const told = run(shepherd(undefined), at(0, 1, 1, 2), one(30));
  expect(told.story).toEqual(["A×1 @0 preempted", "A×4 @2"]);
  expect(told.refusals).toEqual([]);
});

test("shepherd doesn't preempt for a batch twice as large", () => {
  expect(run(shepherd(undefined), at(0, 1, 1), one(30)).story).toEqual(["A×1 @0", "A×2 @6"]);
  expect(run(shepherd("2"), at(0, 1, 1), one(30)).story).toEqual(["A×1 @0 preempted", "A×3 @1"]);
});

test("shepherd refuses as preempted what can't be met after its batch was thrown away", () => {
  const told = run(shepherd(undefined), [{ at: 0, slo: 7 }, ...at(1, 1, 2)], one(30));
  expect(told.story).toEqual(["A×1 @0 preempted", "A×3 @2"]);
  expect(told.refusedAs).toEqual(["1 preempted"]);
});

test("shepherd runs the largest batch first, and passes over a head that stands in its way", () => {
  const models = [plain(40), plain(100)];
  const two = [...at(0), { at: 1 }, ...burst(2, { at: 1, model: 1 })];
  expect(run(shepherd(undefined), two, { models }).story).toEqual(["A×1 @0", "B×2 @6", "A×1 @13"]);
  const blocked = [...at(0), { at: 1, slo: 12 }, ...at(1.5)];
  // At 6 ms the head could only run alone; together with the other it would end at 13, also by its deadline.
  expect(run(shepherd("9"), blocked, one(30)).story).toEqual(["A×1 @0", "A×2 @6"]);
  const passed = run(shepherd("9"), [...at(0), { at: 1, slo: 11 }, ...at(1.5, 1.5)], one(30));
  expect(passed.story).toEqual(["A×1 @0", "A×2 @6"]);
  expect(passed.refusedAs).toEqual(["2 infeasible"]);
});

test("triton sends a batch of the preferred size at once, and a smaller one after the maximum queue delay", () => {
  // 2·l(5) = 20 ms
  expect(run(triton("5ms"), at(0, 1, 2, 3, 4), one(20)).story).toEqual(["A×5 @4"]);
  expect(run(triton("5ms"), at(0, 1), one(20)).story).toEqual(["A×2 @5"]);
});

test("triton sends what waits at once where no delay is set, and rejects what a preferred batch would answer too late", () => {
  const told = run(triton(undefined), [...at(0, 1), { at: 2, slo: 13 }, ...at(3)], one(20));
  expect(told.story).toEqual(["A×1 @0", "A×2 @6"]);
  expect(told.refusedAs).toEqual(["3 overloaded"]);
});

test("triton takes models in the order of their oldest requests", () => {
  const models = [plain(60), plain(60)];
  const arrivals = [...at(0), { at: 1, model: 1 }, ...at(2, 2, 2)];
  expect(run(triton(undefined), arrivals, { models }).story).toEqual(["A×1 @0", "B×1 @6", "A×3 @12"]);
});

test("capped runs the oldest that wait as soon as it is idle, at most its cap, and answers late rather than drop", () => {
  const told = run(capped("2"), [...at(0), ...at(1, 1, 1).map((one) => ({ ...one, slo: 7 })), ...at(20)], one(20));
  expect(told.story).toEqual(["A×1 @0", "A×2 @6", "A×1 @13", "A×1 @20"]);
  expect(told.refusals).toEqual([]);
  // l(9) = 14 is the longest within 70 % of 20 ms.
  expect(run(capped("70%"), burst(12, { at: 0 }), one(20)).story).toEqual(["A×9 @0", "A×3 @14"]);
});

test("capped takes the model whose oldest request has waited longest", () => {
  const models = [plain(60), plain(60)];
  const arrivals = [...at(0, 1, 1, 1), { at: 2, model: 1 }];
  expect(run(capped("2"), arrivals, { models }).story).toEqual(["A×1 @0", "A×2 @6", "A×1 @13", "B×1 @19"]);
});

test("nexus drops a head early when it can't wait for a batch of the planned size", () => {
  // Planned: batches of 5, because 2·l(5) = 20 ms. At 16 ms request 7 could still run alone, until 22 of 23 ms.
  const told = run(nexus(undefined), [...at(0), ...at(1, 1, 1, 1, 1), ...at(3), ...at(10, 10, 10, 10)], one(20));
  expect(told.story).toEqual(["A×1 @0", "A×5 @6", "A×4 @16"]);
  expect(told.refusedAs).toEqual(["7 overloaded"]);
});

test("a nexus frontend goes round its accelerators; several know nothing of one another", () => {
  const arrivals = at(...Array.from({ length: 64 }, (_, i) => 10 * i));
  const gpusOf = (frontends: string) => {
    const { dispatches } = run(nexus(frontends), arrivals, { ...one(20), gpus: 4 });
    return dispatches.map(({ batch }) => batch.gpu);
  };
  expect(gpusOf("1")).toEqual(arrivals.map((_, i) => i % 4));
  expect(gpusOf("8")).not.toEqual(arrivals.map((_, i) => i % 4));
  expect(new Set(gpusOf("8")).size).toBe(4);
});

test("nexus makes a new plan when the proportions it planned for have changed", () => {
  const models = [
    model("a", { alpha: 1, beta: 5, slo: 20, share: 0.9 }),
    model("b", { alpha: 1, beta: 5, slo: 20, share: 0.1 }),
  ];
  const arrivals = Array.from({ length: 3000 }, (_, i) => ({ at: 5 * i, model: i % 10 === 0 ? 0 : 1 }));
  const { dispatches } = run(nexus(undefined), arrivals, { models, gpus: 8 });
  const gpusOfB = (from: number, until: number) => {
    const those = dispatches.filter((one) => one.batch.model === 1 && one.at >= from * 1e6 && one.at < until * 1e6);
    return new Set(those.map(({ batch }) => batch.gpu)).size;
  };
  expect(gpusOfB(0, 10)).toBeLessThan(3);
  expect(gpusOfB(10, 15)).toBeGreaterThan(5);
});

test("clipper's limit grows by one with each full batch in time and shrinks by a tenth when the SLO is missed", () => {
  const told = run(
    clipper(undefined),
    [...burst(10, { at: 0 }), ...burst(5, { at: 40, slo: 7 }), ...burst(10, { at: 60 })],
    one(100),
  );
  // 5 are late at 50 ms: 5 becomes 4.5, and after the next full batch 5.5.
  expect(told.story.map((text) => text.split(" ")[0])).toEqual([
    "A×1",
    "A×2",
    "A×3",
    "A×4",
    "A×5",
    "A×4",
    "A×5",
    "A×1",
  ]);
});

test("clipper shares accelerators by rate over throughput, and doubles models up where there are too few", () => {
  const models = [plain(20), plain(20), model("c", { alpha: 1, beta: 5, slo: 20, share: 2 })];
  const counts = (gpus: number) =>
    models.map((_, i) => staticShares(models, gpus).filter((on) => on.includes(i)).length);
  expect(counts(8)).toEqual([2, 2, 4]);
  expect(staticShares(models, 3).flat().toSorted()).toEqual([0, 1, 2]);
  expect(staticShares(models, 2).map((on) => on.toSorted())).toEqual([[2], [0, 1]]);
  expect(staticShares(models, 1)[0]!.toSorted()).toEqual([0, 1, 2]);
});

test("clockwork runs the batch of least d − l(size), not the earliest deadline, and grows it as far as it is full and on time", () => {
  const models = [plain(34), plain(29)];
  // At 6 ms: A, judged by 8 of its 10, must start by 35 − 13 = 22; B by 30 − 6 = 24.
  const arrivals = [...at(0), ...burst(10, { at: 1 }), { at: 1, model: 1 }];
  expect(run(clockwork(undefined), arrivals, { models }).story).toEqual(["A×1 @0", "A×10 @6", "B×1 @21"]);
  const [a, ...fewer] = arrivals;
  expect(run(clockwork(undefined), [a!, ...fewer.slice(7)], { models }).story).toEqual(["A×1 @0", "B×1 @6", "A×3 @12"]);
});

test("clockwork drops only what can't run even alone, and may commit ahead", () => {
  const told = run(clockwork(undefined), [...at(0), { at: 1, slo: 10 }, { at: 1, slo: 11 }, ...at(1)], one(30));
  // The third can run, alone and without benefit to others: no early drop.
  expect(told.story).toEqual(["A×1 @0", "A×1 @6", "A×1 @12"]);
  expect(told.refusedAs).toEqual(["2 infeasible"]);
  // Committed at 1 ms, 5 ms before its accelerator is free, it doesn't get the request that comes at 2 ms into its
  // batch.
  expect(run(clockwork("5ms"), at(0, 1, 2), one(60)).story).toEqual(["A×1 @0", "A×1 @6", "A×1 @12"]);
  expect(run(clockwork(undefined), at(0, 1, 2), one(60)).story).toEqual(["A×1 @0", "A×2 @6"]);
});

test("eager-least-latest starts at once and takes the least latest start next", () => {
  const models = [plain(60), plain(50)];
  const arrivals = [...at(0), ...at(1, 1), { at: 2, model: 1 }];
  expect(run(eagerLeastLatest(undefined), arrivals, { models }).story).toEqual(["A×1 @0", "B×1 @6", "A×2 @12"]);
  expect(run(eagerLeastLatest(undefined), at(0, 0, 0), { ...one(25), gpus: 2 }).story).toEqual(["A×3 @0"]);
});
