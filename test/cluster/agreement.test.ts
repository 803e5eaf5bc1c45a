/**
 * Production's actors over a network in virtual time, against their pure cores in the simulator. Load and delays are
 * the same.
 */
import { LatencyTable } from "@tutti/profile";
import { StatsReported, subjectsOf } from "@tutti/protocol";
import { type Scenario, TuttiCluster, simulate } from "@tutti/simulator";
import { micros, millis, seconds } from "@tutti/units";
import { FrameReader } from "@tutti/wire";
import { expect, test } from "vitest";
import { VirtualCluster } from "./virtual-cluster.ts";

const MODEL = { name: "resnet50", alphaMs: 1.053, betaMs: 5.072, sloMs: 25, batchSizeMax: 32 };
const RATE = 1_000;
const SECONDS = 4;
/** Time until rates and burstiness, which are measured over 5 s, are those of the load. */
const WARMUP_S = 5.5;

type Figures = Readonly<Record<string, number>>;

function serve(kind: "adaptive" | "deferred") {
  let batches = 0;
  const fault = (): undefined => void batches++;
  const cluster = new VirtualCluster({ gpus: 8, hop: micros(50), policy: { kind }, fault });
  cluster.addModel(MODEL);
  const heard: Figures[] = [];
  const reader = new FrameReader().on(StatsReported, ({ perThread = [] }) => {
    for (const { figures } of perThread) heard.push(figures);
  });
  const watch = cluster.network.connect({ name: "watch" });
  watch.subscribe(subjectsOf("main").stats("batcher"), ({ payload }) => void reader.read(payload));
  cluster.run(seconds(2));
  cluster.load(MODEL.name, { rate: RATE, duration: seconds(WARMUP_S), sloMs: MODEL.sloMs });
  const before = batches;
  const since = heard.length;
  const asked = cluster.load(MODEL.name, { rate: RATE, duration: seconds(SECONDS), sloMs: MODEL.sloMs });
  const during = heard.slice(since);
  cluster.run(seconds(1));
  const inTime = asked.filter(({ outcomes, deadline }) => outcomes[0]?.status === "ok" && outcomes[0].at <= deadline);
  const ran = asked.filter(({ outcomes }) => outcomes[0]?.status === "ok").length;
  return { asked, during, batchMean: ran / (batches - before), goodShare: inTime.length / asked.length };
}

function simulated(kind: "adaptive" | "deferred", { asked, during }: ReturnType<typeof serve>) {
  const [first, last] = [during[0]!, during.at(-1)!];
  const meanOf = (total: string, count: string): number =>
    (last[total]! - first[total]!) / (last[count]! - first[count]!);
  const lag = Math.round(meanOf("arrivalLagUs", "arrivals") - meanOf("grantLagUs", "grants"));
  const { alphaMs, betaMs, batchSizeMax, name, sloMs } = MODEL;
  const profile = LatencyTable.affine({ alpha: 1000 * alphaMs, beta: 1000 * betaMs, batchSizeMax });
  const start = asked[0]!.at;
  const scenario: Scenario = {
    ...{ seed: 1, duration: seconds(SECONDS), warmup: micros(0), gpus: 8, policy: kind, gather: "target", rate: 0 },
    arrivals: {
      process: "trace",
      entries: asked.map(({ at }) => ({ at: micros(at - start), model: name, app: "test", slo: undefined })),
    },
    network: {
      arrive: micros(Math.max(0, lag)),
      ctrl: micros(last["ctrlUs"]!),
      data: micros(last["perItemUs"]!),
      respond: micros(last["respondUs"]!),
      jitter: 0,
    },
    models: [{ name, slo: millis(sloMs), profile, classes: [], share: 1 }],
    phases: [],
  };
  const guard = micros(last["guardUs"]!);
  return simulate(scenario, {
    cluster: (options) => new TuttiCluster(options, { policy: { kind }, gather: "target", guard }),
  });
}

test.for(["adaptive", "deferred"] as const)(
  "whole actors over a network form the batches that the simulator forms: %s, mean batch within 5 %",
  (kind) => {
    const live = serve(kind);
    const { batchSize, badRate } = simulated(kind, live);
    expect(live.goodShare).toBeGreaterThan(0.99);
    expect(badRate).toBeLessThan(0.01);
    expect(Math.abs(live.batchMean / batchSize.mean - 1)).toBeLessThan(0.05);
  },
);
