/**
 * Tutti's default policy beside the best of all others: on every shipped scenario, and on members spread over each
 * family.
 */
import type { Goodput } from "@tutti/simulator";
import { chart, line } from "../charts/axes.ts";
import { NEUTRAL, colourOf } from "../palette.ts";
import { type Drawing, type Figure, type Point, pick, systems } from "./figure.ts";
import { gridSample } from "./grid.ts";

interface Workload {
  /** A shipped file, or a family of them. */
  readonly family: string;
  readonly point: Omit<Point, "policy">;
}

const SINGLE = [
  "table2-resnet50-poisson",
  "table2-inceptionresnetv2-poisson",
  "table2-resnet50-gamma-0.1",
  "table2-inceptionresnetv2-gamma-0.1",
  "two-slo-classes",
  "figure2",
  "figure6b-single",
  "figure6b-mixed",
  "figure10-resnet50",
  "zoo-a100-poisson",
  "zoo-1080ti-poisson",
  "zoo-a100-gamma-0.1",
  "zoo-1080ti-gamma-0.1",
];

/**
 * Baselines that are run on every workload. The other policies don't come near them (Figure 9), so they are left out.
 */
const RIVALS = ["eager-least-latest", "eager", "deferred", "clockwork", "shepherd"];

/** Corners and middles of each family, the same ones each time. */
export function baselineWorkloads(gridPoints: number): readonly Workload[] {
  const product = (axes: Readonly<Record<string, readonly (string | number)[]>>): Record<string, string>[] =>
    Object.entries(axes).reduce<Record<string, string>[]>(
      (sets, [axis, labels]) => sets.flatMap((set) => labels.map((label) => ({ ...set, [axis]: String(label) }))),
      [{}],
    );
  const members = (file: string, axes: Parameters<typeof product>[0]): Workload[] =>
    product(axes).map((set) => ({ family: file, point: { file, set } }));
  return [
    ...SINGLE.map((file): Workload => ({ family: "single scenarios", point: { file } })),
    ...members("figure6a", { beta: [1, 5, 10, 15] }),
    ...members("figure9", { zoo: ["1080ti-strong", "1080ti-weak", "a100-strong", "a100-weak"] }),
    ...members("figure11", { sloMs: [15, 25, 50, 100], popularity: ["equal", "zipf:0.9"], shape: [1, 0.05] }),
    ...members("figure13", { gpus: [8, 64, 256] }),
    ...members("figure14", { sloMs: [25, 100], delayUs: [33, 1000, 5000] }),
    ...gridSample(gridPoints).map(({ file, set, seed }): Workload => ({
      family: "table1",
      point: { file, set: set!, seed: seed! },
    })),
  ];
}

/**
 * Number of seeds. With one seed of 6 s, the best two of nearly equal policies differ by up to 3 % either way. With
 * three seeds of 6 s, a model of 120 r/s may have 7 bad requests in all.
 */
const SEEDS = 3;

interface Compared {
  readonly workload: Workload;
  readonly goodputRps: number;
  readonly best: string;
  readonly ratio: number;
}

export const bestBaseline: Figure = {
  name: "best-baseline",
  title: "Tutti beside the best of the others",
  paper: "no counterpart: the papers compare systems, not the best of them on each workload",
  draw: async (bench, scale) => {
    const { durationS } = scale;
    const workloads = pick(scale, baselineWorkloads(28), baselineWorkloads(2).slice(0, 3));
    const own = systems("default", ...RIVALS);
    const seeds = pick(scale, SEEDS, 1);
    const asked = workloads.flatMap(({ point }) => own.map(({ policy }) => ({ ...point, policy, durationS })));
    const found = await bench.goodput(asked.flatMap((point) => bySeed(point, seeds)));
    const means = asked.map((_, i) => mean(found.slice(i * seeds, (i + 1) * seeds)));
    const all = workloads.flatMap((workload, i): Compared[] => {
      const [ours, ...others] = means.slice(i * own.length, (i + 1) * own.length);
      const most = Math.max(...others);
      // Where an SLO can't be met even alone there is nothing to compare.
      if (most === 0 && ours === 0) return [];
      const best = own[1 + others.indexOf(most)]!.policy;
      const point = { ...workload.point, seed: firstSeed(workload.point), seeds, durationS };
      return [{ workload: { ...workload, point }, goodputRps: ours!, best, ratio: ours! / Math.max(1, most) }];
    });
    return { charts: [{ name: "best-baseline", option: picture(all, seeds) }], rows: rowsOf(all) };
  },
};

const firstSeed = ({ seed = 1 }: Pick<Point, "seed">): number => seed;
const bySeed = (point: Point, seeds: number): readonly Point[] =>
  Array.from({ length: seeds }, (_, i) => ({ ...point, seed: firstSeed(point) + i }));
const mean = (found: readonly Goodput[]): number =>
  found.reduce((sum, { goodputRps }) => sum + goodputRps, 0) / found.length;

function picture(all: readonly Compared[], seeds: number): ReturnType<typeof chart> {
  const families = [...new Set(all.map(({ workload }) => workload.family))];
  const curves = families.map((family, i) => {
    const own = sorted(all.filter(({ workload }) => workload.family === family));
    const points = own.map(({ ratio }, k) => [(100 * (k + 0.5)) / own.length, ratio] as const);
    return line({ name: family, points, colour: colourOf(i, families.length), place: i });
  });
  const equal = [[0, 1] as const, [100, 1] as const];
  return chart({
    ...{ title: bestBaseline.title, note: `${all.length} workloads, by family; sorted; means of ${seeds} seeds` },
    x: { name: "share of the workloads (%)", min: 0, max: 100 },
    y: { name: "goodput of Tutti / of the best other policy", min: 0 },
    series: [...curves, line({ name: "equal", points: equal, colour: NEUTRAL, marks: false, dashed: true })],
  });
}

const rowsOf = (all: readonly Compared[]): Drawing["rows"] =>
  all.map(({ workload: { point }, goodputRps, best, ratio }) => ({
    what: `${[point.file, ...Object.entries(point.set ?? {}).map(([axis, label]) => `${axis} ${label}`)].join(", ")}: ${ratio.toFixed(3)} of the best other (${best})`,
    ...{ policy: "default", ours: goodputRps === 0 ? null : goodputRps, unit: "r/s", paper: "" },
    ...{ verb: "goodput", point: { ...point, policy: "default" } },
  }));

const sorted = (all: readonly Compared[]): readonly Compared[] => all.toSorted((a, b) => a.ratio - b.ratio);
