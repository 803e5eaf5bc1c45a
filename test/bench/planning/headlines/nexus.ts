/**
 * Nexus' Figure 15: squishy packing against batch-oblivious scheduling, 16 sessions on 8 accelerators, five mixes.
 * Profiles are those of Symphony's zoo on a 1080Ti; assumptions where the paper is silent stand with each mix. Both
 * schedulers run on the same nodes with the same early drop.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Stream, pack, saturated } from "@tutti/planning";
import { type MeasureOptions, type Measured, type Planner, carriedBy, measure } from "./goodput.ts";
import type { RunExecutor, RunItem } from "./node-runtime.ts";

export interface NexusMix {
  readonly mix: string;
  readonly text: string;
  readonly squishy: Measured;
  /** Rate that the batch-oblivious placement carries; the placement is the same for every rate. */
  readonly oblivious: number;
  readonly gain: number;
}

const EXECUTORS = 8;
const SESSIONS = 16;
/** Largest batch of a session. */
const BATCH_MAX = 64;
const SLO_OF_RATES = 100;

interface Session {
  readonly slo: number;
  /** Rate relative to the other sessions. */
  readonly weight: number;
  readonly alpha: number;
  readonly beta: number;
}
interface Mix {
  readonly name: string;
  readonly text: string;
  readonly sessions: readonly Session[];
}

type Profile = Pick<Session, "alpha" | "beta">;

function zoo(): ReadonlyMap<string, Profile> {
  const text = readFileSync(join(import.meta.dirname, "../../scenarios/zoos/1080ti.csv"), "utf8");
  const rows = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(
    rows.map((row) => {
      const [name, alpha, beta] = row.split(",");
      return [name!, { alpha: Number(alpha), beta: Number(beta) }];
    }),
  );
}

/** Architectures of the last mix: those of the zoo that run at least twice within half of 50 ms. */
const ARCHITECTURES = [
  ...["MobileNetV2", "MobileNetV3Large", "EfficientNetB0", "EfficientNetV2B0"],
  ...["ResNet50", "ResNet50V2", "InceptionV3", "DenseNet121"],
];
const ZIPF = 0.9;

export function nexusMixes(): Mix[] {
  const profiles = zoo();
  const [inception, resnet] = ["InceptionV3", "ResNet50"].map((name) => profiles.get(name)!) as [Profile, Profile];
  const places = Array.from({ length: SESSIONS }, (_, i) => i);
  const slos = (profile: Profile) => places.map((i) => ({ ...profile, slo: 50 + 10 * i, weight: 1 }));
  const rates = (profile: Profile) => places.map((i) => ({ ...profile, slo: SLO_OF_RATES, weight: (i + 1) ** -ZIPF }));
  return [
    { name: "Inception, SLOs", text: "SLOs of 50 to 200 ms, equal rates", sessions: slos(inception) },
    { name: "ResNet, SLOs", text: "SLOs of 50 to 200 ms, equal rates", sessions: slos(resnet) },
    { name: "Inception, rates", text: "rates of Zipf 0.9, 100 ms", sessions: rates(inception) },
    { name: "ResNet, rates", text: "rates of Zipf 0.9, 100 ms", sessions: rates(resnet) },
    {
      name: "architectures",
      text: "eight models, each within 50 and within 100 ms, equal rates",
      sessions: ARCHITECTURES.flatMap((name) => [50, 100].map((slo) => ({ ...profiles.get(name)!, slo, weight: 1 }))),
    },
  ];
}

export function nexusHeadlines(options: MeasureOptions): NexusMix[] {
  return nexusMixes().map(({ name, text, sessions }) => {
    const squishy = measure((rate) => squishyPlan(streamsAt(sessions, rate)), options);
    const oblivious = carriedBy(obliviousPlan(streamsAt(sessions, PLANNED_FOR)), PLANNED_FOR, options);
    return { mix: name, text, squishy, oblivious, gain: squishy.carried / oblivious };
  });
}
/** Any rate serves: shares of the cluster don't depend on it. */
const PLANNED_FOR = 1_000;

function streamsAt(sessions: readonly Session[], rate: number): Stream[] {
  const total = sessions.reduce((sum, { weight }) => sum + weight, 0);
  const batchSizes = Array.from({ length: BATCH_MAX }, (_, i) => i + 1);
  return sessions.map(({ slo, weight, alpha, beta }, id) => ({
    ...{ id, slo, rate: (rate * weight) / total / 1_000 },
    latency: { batchSizes, latency: (b) => (b > BATCH_MAX ? Infinity : alpha * b + beta) },
  }));
}

const itemOf = ({ id, slo, latency }: Stream, rate: number, batchSize: number): RunItem => ({
  ...{ model: id, slo, rate, batchSize },
  latency: (b) => latency.latency(b),
});
const executorOf = (items: readonly RunItem[]): RunExecutor => [{ size: 100, items }];

const squishyPlan = (streams: readonly Stream[]): ReturnType<Planner> => {
  const { nodes, unplaced } = pack(streams);
  if (unplaced.length > 0 || nodes.length > EXECUTORS) return undefined;
  return nodes.map(({ items }) => executorOf(items.map((item) => itemOf(item.stream, item.rate, item.batchSize))));
};

/**
 * Batch-oblivious scheduling (§7.1). Each session has a share of the cluster by its rate over its largest throughput on
 * an accelerator. Shares go, the largest first, to the accelerator with most left. Batches are the largest that fit
 * twice into the SLO, regardless of other sessions on the accelerator.
 */
export function obliviousPlan(streams: readonly Stream[]): RunExecutor[] {
  const needs = streams.map((stream) => {
    const alone = saturated(stream)!;
    return { stream, batchSize: alone.batchSize, need: stream.rate / alone.rate };
  });
  const total = needs.reduce((sum, { need }) => sum + need, 0);
  const left = new Array<number>(EXECUTORS).fill(1);
  const items = Array.from({ length: EXECUTORS }, (): RunItem[] => []);
  for (const { stream, batchSize, need } of needs.toSorted((a, b) => b.need - a.need || a.stream.id - b.stream.id)) {
    const share = (EXECUTORS * need) / total;
    for (let rest = share; rest > 1e-9;) {
      const most = left.indexOf(Math.max(...left));
      // The last accelerator takes the rounding error.
      const taken = Math.min(rest, Math.max(left[most]!, 1e-6));
      left[most]! -= taken;
      rest -= taken;
      items[most]!.push(itemOf(stream, (stream.rate * taken) / share, batchSize));
    }
  }
  return items.map(executorOf);
}
