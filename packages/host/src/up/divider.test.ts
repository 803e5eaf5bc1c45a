import { D6_INTERFERENCE, D6_PROFILES, d6Model } from "@tutti/planning/testing";
import { after, instant, millis, seconds } from "@tutti/units";
import { describe, expect, test } from "vitest";
import { Divider, type DivisibleExecutors, type DivisibleModels, type MeasuredLoad } from "./divider.ts";

const KNOWN: DivisibleModels = {
  models: new Map(D6_PROFILES.map(({ name }, id) => [name, d6Model(id, 0)])),
  interference: undefined,
};
const loadsAt = (rate: number, changes: Partial<MeasuredLoad> = {}): MeasuredLoad[] =>
  D6_PROFILES.map(({ name, slo }) => ({ name, rate, sloMs: slo, dispersion: 1, ...changes }));
/** Only models that wait for long: nothing is gained by halves. */
const patient = loadsAt(10).map((load) => ({ ...load, sloMs: 2_000, rate: load.name === "vgg" ? 100 : 0 }));

/** Executors of two types: the slow ones take so many times as long. */
const unlike = (fast: number, slow: number, times: number): DivisibleExecutors[] => {
  const slower = D6_PROFILES.map(({ name }, id) => {
    const { latency, ...model } = d6Model(id, 0);
    return [name, { ...model, latency: (b: number, size: number): number => times * latency(b, size) }] as const;
  });
  const names = (type: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${type}-${i}`);
  return [
    { type: "cuda", known: KNOWN, names: names("cuda", fast) },
    { type: "emulated", known: { models: new Map(slower), interference: undefined }, names: names("emulated", slow) },
  ];
};
const ALIKE = ["executor-0", "executor-1", "executor-2", "executor-3"];

function host(
  known = KNOWN,
  failing = new Set<string>(),
  types: readonly DivisibleExecutors[] = [{ type: "cuda", known, names: ALIKE }],
) {
  const split = new Map<string, number>();
  const orders: string[] = [];
  const said: string[] = [];
  const divider = new Divider({
    types,
    isSplit: (name) => (split.get(name) ?? 100) !== 100,
    split: (name, size) => {
      if (failing.has(name)) return Promise.reject(new Error("it is drained"));
      orders.push(`${name} ${size}`);
      split.set(name, size);
      return Promise.resolve();
    },
    say: (event, text) => said.push(`${event}: ${text}`),
  });
  let now = instant(1_000_000);
  const hear = async (loads: readonly MeasuredLoad[], times = 1, every = seconds(5)): Promise<void> => {
    for (let i = 0; i < times; i++) await divider.hear(loads, (now = after(now, every)));
  };
  return { divider, hear, orders, said, split };
}

test("accelerators become halves after three reports of a load that halves carry better, and whole again after three others", async () => {
  const { hear, orders, said } = host();
  await hear(loadsAt(20), 2);
  await hear(patient); // a report between that doesn't agree
  await hear(loadsAt(20), 2);
  expect(orders).toEqual([]);
  await hear(loadsAt(20));
  expect(orders).toEqual(["executor-0 50", "executor-1 50", "executor-2 50", "executor-3 50"]);
  expect(said).toEqual([
    "dividing: accelerators run as two halves each: halves are expected to carry 1488 r/s of this load, whole ones 78",
    "divided: 4 of 4 accelerators run as two halves each",
  ]);
  await hear(loadsAt(20), 5);
  expect(orders).toHaveLength(4);
  await hear(patient, 3);
  expect(orders.slice(4)).toEqual(["executor-0 100", "executor-1 100", "executor-2 100", "executor-3 100"]);
  expect(said.at(-2)).toContain("are made whole again");
});

test("few requests decide nothing, nor does a load with a model that is unknown on halves, which is said once", async () => {
  const { hear, orders, said } = host();
  await hear(loadsAt(20), 2);
  await hear(loadsAt(2)); // what was agreed on before doesn't count any more
  await hear(loadsAt(20));
  await hear(loadsAt(2), 5);
  await hear([...loadsAt(20), { name: "new", rate: 1, sloMs: 100, dispersion: undefined }], 5);
  expect(orders).toEqual([]);
  expect(said).toEqual(["division-unknown: accelerators stay as they are: nothing is known of new on halves"]);
  await hear([...loadsAt(20), { name: "new", rate: 0, sloMs: 100, dispersion: undefined }], 3);
  expect(orders).toHaveLength(4);
});

test("bursts and neighbours that slow one another count", async () => {
  const halvesAt = async (known: DivisibleModels, dispersion: number): Promise<number> => {
    const { hear, said } = host(known);
    await hear(loadsAt(20, { dispersion }), 3);
    return Number(/carry (\d+) r\/s/.exec(said.join())?.[1] ?? 0);
  };
  expect(await halvesAt({ ...KNOWN, interference: D6_INTERFERENCE }, 1)).toBe(1071);
  expect(await halvesAt(KNOWN, 10)).toBe(1146);
});

test("an executor that can't be split is tried again, and one that an operator has split since is left alone", async () => {
  const failing = new Set(["executor-2"]);
  const { hear, orders, said, split } = host(KNOWN, failing);
  split.set("executor-0", 60);
  await hear(loadsAt(20), 3);
  expect(orders).toEqual(["executor-1 50", "executor-3 50"]);
  expect(said.at(-1)).toBe(
    "divided: 2 of 3 accelerators run as two halves each; to be tried again: executor-2 (it is drained)",
  );
  // The same failure isn't told again.
  const told = said.length;
  await hear(loadsAt(20), 5);
  expect(said.slice(told)).toEqual([]);
  failing.clear();
  await hear(loadsAt(20));
  expect(orders.at(-1)).toBe("executor-2 50");
  expect(split.get("executor-0")).toBe(60);
});

test("a divider that is closed does nothing more", async () => {
  const { divider, hear, orders } = host();
  await hear(loadsAt(20), 2);
  divider.close();
  await hear(loadsAt(20), 3);
  expect(orders).toEqual([]);
});

test("reports of one window count once, however many there are", async () => {
  const { hear, orders } = host();
  await hear(loadsAt(20), 20, millis(500));
  expect(orders).toEqual([]);
  await hear(loadsAt(20), 10, millis(500));
  expect(orders).toHaveLength(4);
});

describe("executors of two types", () => {
  const hostOf = (types: DivisibleExecutors[]) => host(KNOWN, new Set(), types);

  test("those of one type become halves where only these carry more so, and whole again", async () => {
    const { hear, orders, said } = hostOf(unlike(2, 3, 4));
    await hear(loadsAt(20), 3);
    expect(orders).toEqual(["cuda-0 50", "cuda-1 50"]);
    expect(said).toEqual([
      "dividing: cuda accelerators run as two halves each: halves are expected to carry 81 r/s of this load, whole ones 9",
      "divided: 2 of 2 accelerators run as two halves each",
    ]);
    await hear(patient, 3);
    expect(orders.slice(2)).toEqual(["cuda-0 100", "cuda-1 100"]);
    expect(said.at(-2)).toContain("cuda accelerators are made whole again");
  });

  test("those of both types become halves where both carry more so", async () => {
    const { hear, orders } = hostOf(unlike(2, 3, 2));
    await hear(loadsAt(20), 3);
    expect(orders).toEqual(["cuda-0 50", "cuda-1 50", "emulated-0 50", "emulated-1 50", "emulated-2 50"]);
  });

  test("reports agree only on the same types", async () => {
    const { hear, orders } = hostOf(unlike(2, 3, 2));
    // `le` can't be served by slow ones in time, and the rest of the mix doesn't need their halves.
    const urgent = loadsAt(20).map((load) => {
      if (load.name === "le") return { ...load, sloMs: 3 };
      return load.name === "be" || load.name === "nas" ? load : { ...load, rate: 0 };
    });
    for (let i = 0; i < 4; i++) {
      await hear(loadsAt(20), 2);
      await hear(urgent, 2);
    }
    expect(orders).toEqual([]);
    await hear(urgent);
    expect(orders).toEqual(["cuda-0 50", "cuda-1 50"]);
  });

  test("a model that is unknown on one of the types keeps all as they are", async () => {
    const [fast, slow] = unlike(2, 3, 2) as [DivisibleExecutors, DivisibleExecutors];
    const models = new Map([...slow.known.models].filter(([name]) => name !== "vgg"));
    const { hear, orders, said } = hostOf([fast, { ...slow, known: { ...slow.known, models } }]);
    await hear(loadsAt(20), 5);
    expect(orders).toEqual([]);
    expect(said).toEqual(["division-unknown: accelerators stay as they are: nothing is known of vgg on halves"]);
  });
});
