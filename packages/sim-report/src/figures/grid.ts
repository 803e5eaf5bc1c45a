/** Deferred against eager over a sample of the synthetic grid of Table 1: Figure 7. */
import { Prng } from "@tutti/units";
import { chart, line } from "../charts/axes.ts";
import { NEUTRAL, colourOf } from "../palette.ts";
import { type Drawing, type Figure, type Point, pick } from "./figure.ts";

const MODELS = ["DenseNet121", "InceptionV3", "ResNet50V2", "VGG16", "Xception", "BERT"];
const AXES = {
  models: [8, 16, 24, 32, 48, 64],
  gpusPerModel: [1, 1.5, 2, 2.5, 3, 3.5, 4],
  sloMs: [20, 25, 30, 40, 50],
  shape: [0.1, 0.2, 0.3, 0.5, 0.7, 1],
};

interface GridPoint extends Point {
  readonly kind: string;
}

/**
 * Different members of the grid, the same ones every time; one in seven is a mix, as one in seven kinds of model is.
 */
export function gridSample(count: number): readonly GridPoint[] {
  const prng = new Prng(7);
  const any = (values: readonly number[]): string => String(values[prng.nextInt(values.length)]!);
  const taken = new Map<string, GridPoint>();
  while (taken.size < count) {
    const kind = ["mixed", ...MODELS][prng.nextInt(1 + MODELS.length)]!;
    const size = { gpusPerModel: any(AXES.gpusPerModel), shape: any(AXES.shape) };
    const { file, set } =
      kind === "mixed"
        ? { file: "table1-mixed", set: size }
        : { file: "table1-grid", set: { model: kind, models: any(AXES.models), sloMs: any(AXES.sloMs), ...size } };
    // The mixes are 42 only, so repeats of them are other arrivals.
    const seed = kind === "mixed" ? 1 + prng.nextInt(5) : 1;
    taken.set(JSON.stringify([file, set, seed]), { kind, file, set, seed, policy: "deferred" });
  }
  return [...taken.values()];
}

interface Ratio {
  readonly point: GridPoint;
  readonly deferred: number;
  readonly eager: number;
  readonly ratio: number;
}

export const grid: Figure = {
  name: "grid",
  title: "Deferred against eager over the synthetic grid",
  paper: "Figure 7: mixes gain 35 % to 102 %, almost all of 5,880 cases are above 0.95, 16 % gain over half",
  draw: async (bench, scale) => {
    const durationS = pick(scale, 5, scale.durationS);
    const sample = gridSample(pick(scale, 500, 4)).map((point) => ({ ...point, durationS }));
    const asked = sample.flatMap(({ kind: _, ...point }) => [point, { ...point, policy: "eager" }]);
    const found = await bench.goodput(asked);
    const all = sample.map((point, i): Ratio => {
      const deferred = found[2 * i]!.goodputRps;
      const eager = found[2 * i + 1]!.goodputRps;
      return { point, deferred, eager, ratio: deferred / eager };
    });
    // Where an SLO can't be met even alone there is nothing to compare.
    const ratios = all.filter(({ deferred, eager }) => deferred > 0 && eager > 0);
    return { charts: [{ name: "grid", option: picture(ratios) }], rows: rowsOf(ratios, all.length) };
  },
};

function picture(ratios: readonly Ratio[]): ReturnType<typeof chart> {
  const kinds = ["mixed", ...MODELS];
  const curves = kinds.map((kind, i) => {
    const own = sorted(ratios.filter(({ point }) => point.kind === kind));
    const points = own.map(({ ratio }, k) => [(100 * (k + 0.5)) / own.length, ratio] as const);
    return line({ name: kind, points, colour: colourOf(i, kinds.length), marks: own.length < 20 });
  });
  const equal = [[0, 1] as const, [100, 1] as const];
  return chart({
    ...{ title: grid.title, note: `${ratios.length} synthetic workloads of Table 1, by model; sorted` },
    x: { name: "share of the workloads (%)", min: 0, max: 100 },
    y: { name: "goodput of deferred / eager", min: 0 },
    series: [...curves, line({ name: "equal", points: equal, colour: NEUTRAL, marks: false, dashed: true })],
  });
}

function rowsOf(ratios: readonly Ratio[], sampled: number): Drawing["rows"] {
  if (ratios.length === 0) return [];
  const all = sorted(ratios);
  const mixed = sorted(ratios.filter(({ point }) => point.kind === "mixed"));
  const part = (least: number): number => (100 * all.filter(({ ratio }) => ratio > least).length) / all.length;
  const of = `of ${all.length} workloads (${sampled - all.length} more can't meet their SLO)`;
  const row = (what: string, ours: number, unit: string, paper: string, { point }: Ratio): Drawing["rows"][number] => {
    const { kind: _, ...plain } = point;
    return { what, policy: "deferred / eager", ours, unit, paper, verb: "goodput", point: plain };
  };
  const worst = all[0]!;
  const best = all.at(-1)!;
  return [
    row(`share above 0.95 ${of}`, part(0.95), "%", "almost all", worst),
    row(`share above 1.5 ${of}`, part(1.5), "%", "16 %", best),
    row("worst ratio, by the workload of the command", worst.ratio, "×", "just under 0.95", worst),
    row("best ratio, by the workload of the command", best.ratio, "×", "over 2", best),
    ...(mixed.length === 0
      ? []
      : [
          row("mixes: least ratio", mixed[0]!.ratio, "×", "1.35", mixed[0]!),
          row("mixes: largest ratio", mixed.at(-1)!.ratio, "×", "2.02", mixed.at(-1)!),
        ]),
  ];
}

const sorted = (ratios: readonly Ratio[]): readonly Ratio[] => ratios.toSorted((a, b) => a.ratio - b.ratio);
