/**
 * Batch sizes and queueing delays of single models at the goodput of each system: Figures 1 and 12, from the same runs.
 */
import { batchSizeCurves, queueDelayCurves } from "../charts/recording-charts.ts";
import type { TimelineRecording } from "../timeline-recorder.ts";
import { type Bench, type Drawing, type Figure, type Point, type Row, baselines } from "./figure.ts";

interface Model {
  readonly name: string;
  readonly file: string;
}

const MODELS: readonly Model[] = [
  { name: "ResNet50", file: "table2-resnet50-poisson" },
  { name: "InceptionResNetV2", file: "table2-inceptionresnetv2-poisson" },
];

interface AtGoodput {
  readonly model: Model;
  readonly label: string;
  readonly point: Point;
  readonly recording: TimelineRecording;
}

/** Every system at 99 % of its own goodput, where it is as loaded as it bears. */
async function runs(bench: Bench): Promise<readonly AtGoodput[]> {
  const asked = MODELS.flatMap((model) =>
    baselines().map(({ policy, label }) => ({ model, label, point: { file: model.file, policy } })),
  );
  const found = await bench.goodput(asked.map(({ point }) => point));
  const loaded = asked
    .map((one, i) => ({ ...one, point: { ...one.point, rate: Math.floor(0.99 * found[i]!.goodputRps) } }))
    .filter(({ point }) => point.rate > 0);
  const recorded = await bench.record(loaded.map(({ point }) => point));
  return loaded.map((one, i) => ({ ...one, recording: recorded[i]!.recording }));
}

const PAPER_MEDIANS: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  ResNet50: { clockwork: 1, nexus: 6, shepherd: 9, deferred: 14 },
  InceptionResNetV2: { clockwork: 1, nexus: 2, shepherd: 4, deferred: 8 },
};

export const batchSizes: Figure = {
  name: "batch-sizes",
  title: "Batch sizes at each system's goodput",
  paper: "Figure 1: median batch sizes of Clockwork, Nexus, Shepherd and Symphony on 8 accelerators",
  draw: async (bench) =>
    draw(await runs(bench), {
      name: "batch-sizes",
      note: "8 accelerators, Poisson arrivals at 99 % of each system's goodput",
      curves: batchSizeCurves,
      row: ({ model, point, recording }) => ({
        what: `${model.name}: median batch size`,
        ours: median(recording.batchSizes),
        unit: "requests",
        paper: String(PAPER_MEDIANS[model.name]?.[point.policy] ?? ""),
      }),
    }),
};

export const queueDelays: Figure = {
  name: "queue-delays",
  title: "Queueing delay at each system's goodput",
  paper: "Figure 12: Symphony's queueing delay is 2x to 3x shorter than that of Nexus and Clockwork",
  draw: async (bench) =>
    draw(await runs(bench), {
      name: "queue-delays",
      note: "8 accelerators, Poisson arrivals at 99 % of each system's goodput",
      curves: queueDelayCurves,
      row: ({ model, point, recording: { queueDelays: bins } }) => ({
        what: `${model.name}: median queueing delay`,
        ours: (median(bins.counts) * bins.width) / 1000,
        unit: "ms",
        paper: point.policy === "nexus" || point.policy === "clockwork" ? "2 to 3 times Symphony's" : "",
      }),
    }),
};

interface Look {
  readonly name: string;
  readonly note: string;
  readonly curves: typeof batchSizeCurves;
  readonly row: (run: AtGoodput) => Pick<Row, "what" | "ours" | "unit" | "paper">;
}

function draw(all: readonly AtGoodput[], { name, note, curves, row }: Look): Drawing {
  const charts = MODELS.map((model) => {
    const own = all.filter((run) => run.model === model).map(({ label, recording }) => ({ name: label, recording }));
    return { name: `${name}-${model.name.toLowerCase()}`, option: curves(own, { title: model.name, note }) };
  });
  const rows = all.map((run) => ({
    ...row(run),
    policy: run.point.policy,
    verb: "simulate" as const,
    point: run.point,
  }));
  return { charts, rows };
}

/** The first index at which half of the counts are reached. */
function median(counts: Float64Array): number {
  const half = counts.reduce((total, count) => total + count, 0) / 2;
  let below = 0;
  return counts.findIndex((count) => (below += count) >= half);
}
