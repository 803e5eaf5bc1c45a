import { type Instant, actorKey, gpuId, instant } from "@tutti/units";
import { expect, test } from "vitest";
import { type ModelFaults, type Strike, isModelFaults, statusWith, withStrike } from "./model-faults.ts";

const model = { name: "mlp", number: 7, version: "1" };
const strike = (executor: number, at: number, changes: Partial<Strike> = {}): Strike => ({
  executor: actorKey(executor),
  host: "a",
  gpu: gpuId(0),
  doing: "run",
  how: "crashed",
  startedAt: instant(at - 10),
  at: instant(at),
  ...changes,
});
const afterAll = (...strikes: Strike[]): ModelFaults | undefined =>
  strikes.reduce<ModelFaults | undefined>((faults, one) => withStrike(model, faults, one) ?? faults, undefined);

test("the third executor in a row quarantines the model, with a reason that says what happened and what to do", () => {
  const two = afterAll(strike(1, 100), strike(2, 200_000));
  expect(two).toMatchObject({ number: 7, quarantined: "" });
  const three = withStrike(model, two, strike(3, 1_500_100, { how: "hung", doing: "load", host: "b", gpu: gpuId(4) }));
  expect(three?.quarantined).toMatch(
    /^it ended its executor 3 times in a row within 1.5 s \(crashed a run on a, .* hung in its load on b, accelerator 4\).*--release mlp/,
  );
  expect(statusWith(model, undefined, three)).toMatchObject({ state: "quarantined", reason: three!.quarantined });
  expect(statusWith(model, undefined, two)).toBeUndefined();
});

test("one strike quarantines a model with the reason that comes with it", () => {
  const one = withStrike(model, undefined, strike(1, 100, { how: "hung" }), "one row takes too long");
  expect(one).toMatchObject({ strikes: [{ executor: 1 }], quarantined: "one row takes too long" });
});

test("an executor counts once, however often and by whomever its end is told", () => {
  expect(afterAll(strike(1, 100), strike(1, 200, { how: "hung" }))?.strikes).toHaveLength(1);
});

test("executors that were killed together are one event; one killed in a run that began later is another", () => {
  const killed = { how: "killed" } as const;
  const powerCut = [1, 2, 3, 4].map((executor) =>
    strike(executor, 1000 + executor, { ...killed, startedAt: 900 as Instant }),
  );
  expect(afterAll(...powerCut)).toMatchObject({ strikes: [{ executor: 1 }], quarantined: "" });
  const later = strike(5, 2000, { ...killed, startedAt: 1500 as Instant });
  expect(afterAll(...powerCut, later)?.strikes).toHaveLength(2);
});

test("what is quarantined takes no more strikes: its reason stays", () => {
  const faults = afterAll(strike(1, 100), strike(2, 200), strike(3, 300));
  expect(withStrike(model, faults, strike(4, 400))).toBeUndefined();
});

test("faults are read as executors write them, and in no other form (T8)", () => {
  const faults = afterAll(strike(1, 100))!;
  expect(isModelFaults(JSON.parse(JSON.stringify(faults)))).toBe(true);
  for (const one of [
    ...[{ number: -1 }, { quarantined: undefined }, { strikes: {} }, { strikes: [null] }],
    ...[{ how: "toString" }, { gpu: "0" }, { executor: 0 }, { at: 0.5 }, { host: 7 }].map((part) => ({
      strikes: [{ ...faults.strikes[0], ...part }],
    })),
  ])
    expect(isModelFaults({ ...faults, ...one }), JSON.stringify(one)).toBe(false);
});
