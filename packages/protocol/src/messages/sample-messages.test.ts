import { expect, test } from "vitest";
import { SamplesWanted, IdleAsked, IdleGiven, AloneMeasured, AppsCounted, AppsNamed } from "./sample-messages.ts";

const AT = 1_790_000_000_000_000;
const GOOD = {
  samplesWanted: {
    batchId: 9,
    thread: 64,
    what: "all",
    rows: [{ ingress: 77_777, seq: 3, app: 7, units: 2.5 }],
  },
  idleAsked: { gpu: 1, executor: 77_777, epoch: 3, grantSeq: 0, takes: 900 },
  idleGiven: { gpu: 1, epoch: 3, grantSeq: 4, validUntil: AT, until: AT + 900 },
  aloneMeasured: {
    thread: 64,
    samples: [{ app: 7, units: 0, alone: 900 }],
    batches: [{ batchSize: 4, alone: 900, took: 2_000 }],
  },
  appsCounted: { thread: 64, apps: [{ app: 7, count: 3 }] },
  appsNamed: { apps: ["camera", "shop-2"] },
} as const;
const BAD: Readonly<Record<keyof typeof GOOD, readonly [string, unknown][]>> = {
  samplesWanted: [
    ["what", "none"],
    ["thread", -1],
    ["rows", Array.from({ length: 17 }, () => GOOD.samplesWanted.rows[0])],
    ["rows", [{ ...GOOD.samplesWanted.rows[0], units: NaN }]],
    ["rows", [null]],
  ],
  idleAsked: [
    ["takes", 0],
    ["takes", Infinity],
    ["gpu", 70_000],
    ["executor", 0],
    ["grantSeq", 1.5],
  ],
  idleGiven: [
    ["until", "soon"],
    ["validUntil", NaN],
    ["epoch", -1],
  ],
  aloneMeasured: [
    ["samples", Array.from({ length: 257 }, () => GOOD.aloneMeasured.samples[0])],
    ["samples", [{ app: 7, units: -1, alone: 900 }]],
    ["samples", [{ app: 7, units: 0, alone: 0 }]],
    ["batches", [{ batchSize: 0, alone: 1, took: 1 }]],
    ["batches", undefined],
  ],
  appsCounted: [
    ["apps", [{ app: 2 ** 32, count: 1 }]],
    ["apps", [{ app: 1, count: 0 }]],
    ["apps", "camera"],
  ],
  appsNamed: [
    ["apps", ["a.b"]],
    ["apps", [7]],
    ["apps", Array.from({ length: 513 }, (_, i) => `a${i}`)],
  ],
};

const TYPES = {
  samplesWanted: SamplesWanted,
  idleAsked: IdleAsked,
  idleGiven: IdleGiven,
  aloneMeasured: AloneMeasured,
  appsCounted: AppsCounted,
  appsNamed: AppsNamed,
};

test("messages about running times are believed as their senders write them, and in no other form (T8)", () => {
  for (const [name, good] of Object.entries(GOOD)) {
    const check = TYPES[name as keyof typeof GOOD].accepts;
    expect(check(good), name).toBe(true);
    for (const [key, value] of BAD[name as keyof typeof GOOD])
      expect(check({ ...good, [key]: value }), `${name}.${key}: ${String(value)}`).toBe(false);
    expect(check({}), name).toBe(false);
  }
});
