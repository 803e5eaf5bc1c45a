import { expect, test } from "vitest";
import { VirtualClock } from "@tutti/ports/clock";
import type { ModelSpec, ModelStatus } from "@tutti/protocol";
import { InMemoryStore } from "@tutti/ports/store";
import { type ActorKey, type Instant, type Micros, Prng, actorKey, after, instant, micros, millis } from "@tutti/units";
import { toJson } from "@tutti/wire";
import { Catalog, type CatalogModel } from "../runtime/catalog.ts";
import { ModelLeases, type ModelLeasesOptions } from "./ownership/model-leases.ts";
import { PullCost } from "./pull-cost.ts";

test("d_data is the slope over the batch size and d_ctrl what remains, so that one round trip is not charged per item", () => {
  const cost = new PullCost({ ctrl: micros(100), perItem: 5, perKilobyte: 1 }, 1_024);
  const prng = new Prng(5);
  for (let i = 0; i < 2_000; i++) {
    const batchSize = 1 + prng.nextInt(32);
    cost.note(instant(1_000_000 + i * 20_000), batchSize, micros(400 + 20 * batchSize + prng.nextInt(40)));
  }
  expect(cost.perItem()).toBeGreaterThan(18);
  expect(cost.perItem()).toBeLessThan(22);
  const ctrl = cost.ctrl(instant(41_000_000));
  expect(ctrl).toBeGreaterThan(390);
  expect(ctrl).toBeLessThan(560);
});

test("a shortage of processors, which comes with large batches, is not blamed on the items", () => {
  const cost = new PullCost({ ctrl: micros(100), perItem: 2, perKilobyte: 0 }, 4);
  for (let i = 0; i < 2_000; i++) {
    const short = i % 100 < 30;
    cost.note(instant(1_000_000 + i * 20_000), short ? 16 : 2, micros(short ? 30_000 : 500));
  }
  expect(cost.perItem()).toBeLessThanOrEqual(8);
});

test("delays never fall below their floors", () => {
  const cost = new PullCost({ ctrl: micros(300), perItem: 2, perKilobyte: 0 }, 4);
  for (let i = 0; i < 100; i++) cost.note(instant(1_000_000 + i), 1 + (i % 8), micros(5));
  expect(cost.ctrl(instant(1_100_000))).toBe(300);
  expect(cost.perItem()).toBe(2);
});

test("a time that is none, or that nobody can have waited for, is not believed for ever", () => {
  const cost = new PullCost({ ctrl: micros(300), perItem: 2, perKilobyte: 0 }, 4);
  for (let i = 0; i < 100; i++) cost.note(instant(1_000_000 + i), 1 + (i % 8), micros(500));
  for (const bad of [Infinity, NaN, -Infinity, 1e15]) cost.note(instant(1_100_000), 1, bad as Micros);
  expect(cost.ctrl(instant(1_100_000))).toBeLessThan(600);
  expect(cost.perItem()).toBe(2);
});

test("a thread that is taken over begins with what its last holder has measured", () => {
  const floors = { ctrl: micros(300), perItem: 2, perKilobyte: 0 };
  const cost = new PullCost(floors, 4, { ctrl: micros(2_500), perItem: 5 });
  expect([cost.ctrl(instant(1)), cost.perItem()]).toEqual([2_500, 5]);
  for (let i = 0; i < 100; i++) cost.note(instant(1_000_000 + i), 1 + (i % 8), micros(400));
  expect(cost.ctrl(instant(1_100_000))).toBeLessThan(600);
  expect(new PullCost(floors, 4, { ctrl: Infinity as Micros, perItem: 1e9 }).ctrl(instant(1))).toBe(1_000);
});

/** Batchers that share a store, each with its own view of the living batchers. */
function leasesOf(
  self: ActorKey,
  shared: { readonly clock: VirtualClock; readonly store: InMemoryStore },
  views: Pick<ModelLeasesOptions, "batchers" | "goneAt"> & { readonly onTerm?: (term: number) => void },
): ModelLeases {
  const log = { child: () => log, warn: () => undefined } as never;
  const onChange = (model: CatalogModel): void => {
    views.onTerm?.(model.lease?.term ?? 0);
    leases.changed();
  };
  const catalog = new Catalog(shared.store, log, { onChange });
  const leases: ModelLeases = new ModelLeases({
    ...shared,
    ...views,
    peerTimeout: millis(100),
    catalog: () => catalog,
    self,
    leaving: () => false,
    knowsPeers: () => true,
    onStranger: () => undefined,
  });
  catalog.open(() => undefined);
  return leases;
}
function withModel(): { readonly clock: VirtualClock; readonly store: InMemoryStore } {
  const clock = new VirtualClock();
  const store = new InMemoryStore({ deliver: (run) => clock.alarm(run).set(after(clock.now(), micros(50))) });
  const identity = { name: "m", number: 1, version: "1", engine: "emulated" } as const;
  const tensors = { inputs: [], outputs: [], constants: [], axes: {}, buckets: [{}] };
  const spec: ModelSpec = { ...identity, ...tensors, slo: millis(50), batchSizeMax: 8, patience: 1 };
  const measured = { reason: "", profiles: [], means: [], executorTypes: [] };
  const status: ModelStatus = { name: "m", number: 1, version: "1", state: "ready", ...measured };
  store.put("tutti_models", "m", toJson(spec), () => undefined);
  store.put("tutti_profiles", "m", toJson(status), () => undefined);
  return { clock, store };
}

test.for([
  ["were never heard", undefined],
  ["were proved dead before they came back unheard", instant(0)],
] as const)(
  "two batchers that hear the store and %s take a model from one another once in a time-out, not at every write",
  ([, goneAt]) => {
    const shared = withModel();
    let moves = 0;
    for (const self of [11, 222].map(actorKey))
      leasesOf(self, shared, {
        batchers: () => new Map([[self, true]]),
        goneAt: () => goneAt,
        ...(self === 11 && { onTerm: (term) => (moves = term) }),
      });
    shared.clock.advanceBy(millis(1_000));
    expect(moves).toBeGreaterThan(1);
    expect(moves).toBeLessThanOrEqual(11);
  },
);

test("a lease of a newer form counts as nobody's: its former holder loses it, and it is taken at its revision", () => {
  const shared = withModel();
  const terms: number[] = [];
  leasesOf(actorKey(11), shared, {
    batchers: () => new Map([[actorKey(11), true]]),
    goneAt: () => undefined,
    onTerm: (term) => void terms.push(term),
  });
  shared.clock.advanceBy(millis(1));
  const [held] = terms.slice(-1);
  shared.store.put("tutti_leases", "model.1", toJson({ form: 2, holders: [5] }), () => undefined);
  shared.clock.advanceBy(millis(1));
  expect(terms.slice(-3)).toEqual([held, 0, held! + 2]);
});

test("a holder that is proved dead is inherited from at once, one that is only silent after a time-out", () => {
  for (const [isProved, withinMs] of [
    [true, 1],
    [false, 98],
  ] as const) {
    const shared = withModel();
    const [self, other] = [actorKey(11), actorKey(222)];
    let goneAt: Instant | undefined;
    let isThere = true;
    let term = 0;
    const leases = leasesOf(self, shared, {
      batchers: () =>
        new Map(
          isThere
            ? [
                [self, true],
                [other, true],
              ]
            : [[self, true]],
        ),
      goneAt: () => goneAt,
      onTerm: (now) => (term = now),
    });
    shared.store.put("tutti_leases", "model.1", toJson({ batcher: other }), () => undefined);
    shared.clock.advanceBy(millis(1));
    const before = term;
    expect(before).toBeGreaterThan(0);
    isThere = false;
    if (isProved) goneAt = shared.clock.now();
    leases.claimAll();
    shared.clock.advanceBy(millis(withinMs - 1));
    if (!isProved) expect(term).toBe(before);
    shared.clock.advanceBy(millis(4));
    expect(term).toBeGreaterThan(before);
  }
});
