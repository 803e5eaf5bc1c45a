import { D6_INTERFERENCE, D6_PROFILES, d6Model } from "@tutti/planning/testing";
import { after, instant, millis, seconds } from "@tutti/units";
import { expect, test } from "vitest";
import { Divider, type DivisibleModels, type MeasuredLoad } from "./divider.ts";

const KNOWN: DivisibleModels = {
  models: new Map(D6_PROFILES.map(({ name }, id) => [name, d6Model(id, 0)])),
  interference: undefined,
};
const loadsAt = (rate: number, changes: Partial<MeasuredLoad> = {}): MeasuredLoad[] =>
  D6_PROFILES.map(({ name, slo }) => ({ name, rate, sloMs: slo, dispersion: 1, ...changes }));
/** Only models that wait for long: nothing is gained by halves. */
const patient = loadsAt(10).map((load) => ({ ...load, sloMs: 2_000, rate: load.name === "vgg" ? 100 : 0 }));

function host(known = KNOWN, failing = new Set<string>()) {
  const split = new Map<string, number>();
  const orders: string[] = [];
  const said: string[] = [];
  const divider = new Divider({
    known,
    names: ["executor-0", "executor-1", "executor-2", "executor-3"],
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
    "dividing: accelerators run as two halves each: halves are expected to carry 1488 r/s of this load, whole ones 52",
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
  expect(await halvesAt({ ...KNOWN, interference: D6_INTERFERENCE }, 1)).toBe(1089);
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
