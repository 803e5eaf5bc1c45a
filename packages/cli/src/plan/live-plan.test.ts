import { type Placement, type PlanReport, isPlanReport } from "@tutti/protocol";
import { gpuId, instant } from "@tutti/units";
import { expect, test } from "vitest";
import { livePlan } from "@tutti/admin/operators";
import { renderLivePlan } from "./live-text.ts";

const placement: Placement = {
  epoch: 12,
  madeAt: instant(96e6),
  models: [
    { number: 1, subCluster: "main" },
    { number: 2, subCluster: "main", next: "b" },
    { number: 3, subCluster: "b" },
  ],
  gpus: [0, 1, 2].map((gpu) => ({ gpu: gpuId(gpu), subCluster: gpu === 0 ? "main" : "b" })),
};
const report: PlanReport = {
  at: instant(99e6),
  epoch: 12,
  subClusters: [
    { subCluster: "main", rate: 300, work: 1.5, memoryBytes: 3e9, gpus: 1, gpusIdeal: 1.2 },
    { subCluster: "b", rate: 400, work: 1.5, memoryBytes: 2e9, gpus: 2, gpusIdeal: 1.8 },
  ],
  models: [
    { number: 1, name: "resnet", rate: 300, work: 1.5, memoryBytes: 1e9 },
    { number: 2, name: "ocr", rate: 100, work: 0.5, memoryBytes: 2e9 },
    { number: 3, name: "vad", rate: 300, work: 1, memoryBytes: 0 },
  ],
  executors: [0, 1, 2].map((gpu) => ({
    ...{ gpus: [gpuId(gpu)], subCluster: gpu < 2 ? "main" : "b", memoryBytes: 3e9, models: 2 },
  })),
  waiting: [{ number: 3, to: "main" }],
  leftOut: [{ number: 9, text: "is left out: it needs 5 GB, and no accelerator holds more than 4 GB" }],
  reasons: [{ at: instant(96e6), about: "ocr", text: "goes from main to b: why" }],
  advice: { gpus: 3, advice: 2, badRate: 0.12, idleShare: 0.03 },
};

test("the plan, the next one and their difference: models on their way and those that wait, accelerators that load", () => {
  expect(isPlanReport(report)).toBe(true);
  const plan = livePlan(placement, report, 100e6);
  expect(plan).toMatchObject({ kind: "live", feasible: false, epoch: 12, madeS: 4, seenS: 1 });
  expect(plan.current.models.map(({ model, subCluster }) => [model, subCluster])).toEqual([
    ["resnet", "main"],
    ["ocr", "main"],
    ["vad", "b"],
  ]);
  expect(plan.next.models.map(({ subCluster }) => subCluster)).toEqual(["main", "b", "main"]);
  expect(plan.difference).toEqual({
    models: [
      { model: "ocr", from: "main", to: "b", state: "moving" },
      { model: "vad", from: "b", to: "main", state: "waiting" },
    ],
    accelerators: [{ gpu: 1, from: "main", to: "b" }],
  });
});

test("people read it in sentences and tables", () => {
  expect(renderLivePlan(livePlan(placement, report, 100e6)))
    .toBe(`Plan 12, made 4 s ago (seen 1 s ago): 3 models and 3 accelerators
Advice: 5 accelerators, 2 more; 12 % bad, 3 % idle

sub-cluster  r/s  carries  work  accelerators  its share  memory  models
main         300        -   1.5             1        1.2  3 GB    resnet and ocr
b            400        -   1.5             2        1.8  2 GB    vad

model   served in  next    r/s  work  memory
resnet  main               300   1.5  1 GB
ocr     main       → b     100   0.5  2 GB
vad     b          → main  300     1  0 B

The next plan:
- ocr: main → b (is being loaded there)
- vad: b → main (waits for room)
- accelerator 1: main → b (loads what it lacks)
- model 9 is left out: it needs 5 GB, and no accelerator holds more than 4 GB

Why, the newest first:
- ocr goes from main to b: why (4 s ago)`);
});

test("without a plan everything belongs to main, and a plan without a report is shown as far as it goes", () => {
  expect(renderLivePlan(livePlan(undefined, undefined, 0))).toMatch(/^Nobody has planned yet/);
  const bare = livePlan(placement, undefined, 100e6);
  expect(bare).toMatchObject({ feasible: true, seenS: null, advice: null });
  expect(renderLivePlan(bare)).toContain("model 2  main       → b");
  expect(renderLivePlan(bare)).toContain("no planner has said what it sees");
});

test("what sub-clusters are expected to carry is beside their rates, and what dividing them costs below", () => {
  const [main, b] = report.subClusters;
  const subClusters = [
    { ...main!, carriedRps: 350, waits: "ocr" },
    { ...b!, carriedRps: 1_200 },
  ];
  const text = (undividedRps: number): string =>
    renderLivePlan(livePlan(placement, { ...report, subClusters, undividedRps }, 100e6));
  // main is full at 350 of its 300 r/s, and then the whole has 7/6 of its rate.
  expect(text(1_500)).toContain(`sub-cluster  r/s  carries               work  accelerators  its share  memory  models
main         300  350 (then ocr waits)   1.5             1        1.2  3 GB    resnet and ocr
b            400  1,200                  1.5             2        1.8  2 GB    vad
Undivided these accelerators carry 1,500 r/s of this mix, in 2 sub-clusters 817: fewer sub-clusters carry more.`);
  expect(text(850)).toContain("carry 850 r/s of this mix, in 2 sub-clusters 817.");
});

test("bounds that bind, and why not more sub-clusters are used, are told below the table", () => {
  const [main, b] = report.subClusters;
  const division = { asked: 4, used: 2, needed: 1, because: "costly", dividedRps: 2_254, undividedRps: 4_514 } as const;
  const subClusters = [
    {
      ...main!,
      dynamicBytes: 1e9,
      memoryBytesMax: 4.2e9,
      rateMax: 310,
      busy: 0.68,
      binds: ["memory", "rate"] as const,
    },
    { ...b!, busy: 0.1, binds: [] },
  ];
  const full: PlanReport = { ...report, subClusters, division };
  expect(isPlanReport(full)).toBe(true);
  const plan = livePlan(placement, full, 100e6);
  expect(plan.division).toEqual(division);
  expect(renderLivePlan(plan)).toContain(`
main: memory binds (4 GB of 4.2 GB, 1 GB of them for a run).
main: rate binds (300 r/s of 310, and its ranker is busy for 68 %).
2 of 4 sub-clusters are used, since more would carry less than 90 % of what one carries (--sub-clusters-min 4 divides all the same). All 4 would carry 2,254 r/s of this mix, one 4,514.
`);
  const why = (more: Partial<NonNullable<PlanReport["division"]>>): string =>
    renderLivePlan(livePlan(placement, { ...report, division: { ...division, ...more } }, 100e6));
  expect(why({ used: 4, because: "demanded" })).toContain("4 of 4 sub-clusters are used, as --sub-clusters-min says.");
  expect(why({ used: 4, needed: 6, because: "rankers" })).toContain("and rankers are too busy: 6 are needed.");
  expect(why({ used: 4, because: "memory" })).toContain("since the models' memory needs them.");
  expect(livePlan(placement, report, 100e6).division).toBeNull();
});
