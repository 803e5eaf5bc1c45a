import type { Network } from "@tutti/simulator";
import { micros } from "@tutti/units";
import { expect, test } from "vitest";
import type { RecordedArrivals } from "./arrival-record.ts";
import { REPLAY_BATCHES_MAX, type ReplayModel, runReplay } from "./replay-run.ts";
import { replayWish } from "./replays.ts";

const NETWORK: Network = { ctrl: micros(200), data: micros(10), respond: micros(500), jitter: 0 };
const SLO = micros(50_000);
const points = [1, 2, 4, 8, 16].map((batchSize) => ({ batchSize, latency: micros(10_000 + 1_000 * batchSize) }));
const model = (name: string): ReplayModel => ({ name, slo: SLO, batchSizeMax: 16, profile: points, mean: [] });

/** Evenly spaced arrivals, `rate` a second for each model. */
function recorded(models: readonly string[], rate: number, seconds: number): RecordedArrivals {
  const count = rate * seconds;
  const rows = Array.from({ length: count }, (_, i) =>
    models.map((_, stream) => ({ stream, at: 1e15 + Math.floor((i * 1e6) / rate) + stream })),
  ).flat();
  return {
    streams: models.map((name) => ({ model: name, app: "shop", slo: SLO })),
    stream: Uint16Array.from(rows, ({ stream }) => stream),
    at: Float64Array.from(rows, ({ at }) => at),
    left: 0,
  };
}

test("more accelerators make bad requests good, and what is drawn is what ran", () => {
  const job = { models: [model("mlp")], recorded: recorded(["mlp"], 1_000, 4), network: NETWORK };
  const [few, many] = [1, 4].map((gpus) => runReplay({ ...job, wish: { minutes: 10, gpus, policy: "default" } }));
  expect(few!.badRate).toBeGreaterThan(0.2);
  expect(many!.badRate).toBeLessThan(0.01);
  expect([many!.arrivals, many!.gpus]).toEqual([4_000, 4]);
  let served = 0;
  for (let i = 0; i < many!.rows.length; i += 8) {
    const [place = -1, gpu = -1, size = 0, , first = 0, granted = 0, begin = 0, end = 0] = many!.rows.slice(i, i + 8);
    expect([place, gpu < 4, first <= granted && granted <= begin && begin < end]).toEqual([0, true, true]);
    served += size;
  }
  expect(served).toBe(4_000);
});

test("a policy that doesn't exist and a time in which nothing came are said so, and a model that isn't known is left out", () => {
  const job = { models: [model("mlp")], network: NETWORK };
  const wish = { minutes: 10, gpus: 2, policy: "default" };
  expect(() => runReplay({ ...job, wish: { ...wish, policy: "magic" }, recorded: recorded(["mlp"], 10, 1) })).toThrow(
    /no policy 'magic'/,
  );
  expect(() => runReplay({ ...job, wish, recorded: recorded([], 0, 0) })).toThrow(/nothing to replay/);
  const answer = runReplay({ ...job, wish, recorded: recorded(["gone", "mlp"], 10, 1) });
  expect(answer.models.map(({ name }) => name)).toEqual(["mlp"]);
  expect(answer.without).toEqual([{ model: "gone", text: expect.any(String) as string }]);
});

test("a model has the SLOs of its requests, by which they are in time, and not that of now", () => {
  const record = recorded(["mlp", "mlp"], 100, 2);
  const streams = record.streams.map((stream, i) => ({ ...stream, slo: micros([200_000, 400_000][i]!) }));
  const wish = { minutes: 10, gpus: 2, policy: "timeout:100ms" };
  const answer = runReplay({ models: [model("mlp")], network: NETWORK, wish, recorded: { ...record, streams } });
  expect(answer.models).toMatchObject([{ name: "mlp", badRate: 0, sloLeastMs: 200, sloMostMs: 400 }]);
  expect(answer.models[0]!.p99Ms).toBeGreaterThan(50);
});

test("so many batches are told and no more, and the others are counted", () => {
  const eager = { minutes: 10, gpus: 64, policy: "eager" };
  const answer = runReplay({
    wish: eager,
    models: [model("mlp")],
    recorded: recorded(["mlp"], 1_000, 21),
    network: NETWORK,
  });
  expect(answer.rows.length).toBeLessThanOrEqual(8 * REPLAY_BATCHES_MAX);
  expect(answer.left).toBeGreaterThan(0);
});

test("a wish has whole numbers within its bounds and a policy's name, or is refused by what is wrong", () => {
  expect(replayWish({ minutes: 10, gpus: 4, policy: "timeout:20%", more: 1 })).toEqual({
    minutes: 10,
    gpus: 4,
    policy: "timeout:20%",
  });
  for (const wrong of [
    null,
    7,
    {},
    { minutes: 0 },
    { minutes: 11 },
    { minutes: 1, gpus: 1.5 },
    { minutes: 1, gpus: 4, policy: "../x" },
  ])
    expect(() => replayWish(wrong)).toThrow(/minutes|gpus|policy/);
});
