/** The default policy on random mixes of unlike models, which nobody chose: beside its best rival and the bounds. */
import { BAD_LEAST, type ComparedMix } from "@tutti/simulator";
import { chart, line } from "../charts/axes.ts";
import { GOOD, LATE, NEUTRAL } from "../palette.ts";
import { type Bench, type Figure, type MixPoint, type Row, type Scale, pick } from "./figure.ts";

interface Kind {
  readonly name: string;
  readonly title: string;
  readonly paper: string;
  readonly parts: boolean;
  readonly first: number;
  readonly count: number;
  readonly rivals: readonly string[];
}

const RIVALS = ["eager", "deferred", "beta-lambda", "clockwork", "timeout:20%", "latest"];
/** Enough to show that the figure can be drawn. */
const QUICK_MIXES = 2;

export const randomMixes = figureOf({
  ...{ name: "random-mixes", title: "Random mixes of unlike models", parts: false, first: 7000, count: 50 },
  paper: "mixes are of its choice; these are drawn: 4 to 32 accelerators, 2 to 10 unlike models, Poisson or bursts",
  rivals: RIVALS,
});

export const randomMixesOfParts = figureOf({
  ...{ name: "random-mixes-parts", title: "Random mixes of models that fill part of an accelerator" },
  ...{ parts: true, first: 7100, count: 40 },
  paper: "accelerators are whole; here one request fills 0.03 to 1 of one, and the default may divide them",
  rivals: ["fractions", "nexus", ...RIVALS],
});

function figureOf(kind: Kind): Figure {
  const { name, title, paper } = kind;
  return {
    ...{ name, title, paper },
    draw: async (bench: Bench, scale: Scale) => {
      const count = pick(scale, kind.count, QUICK_MIXES);
      const points = Array.from({ length: count }, (_, i): MixPoint => {
        return { seed: kind.first + i, parts: kind.parts, rivals: kind.rivals };
      });
      const all = await bench.compareMixes(points);
      const judged = all.filter(({ badLeast, rivalRps }) => badLeast >= BAD_LEAST && rivalRps > 0);
      return { charts: [{ name, option: picture(kind, judged, all.length) }], rows: rowsOf(kind, judged, all) };
    },
  };
}

interface Measure {
  readonly name: string;
  readonly colour: string;
  /** Where labels stand, so that those of curves near one another stay apart. */
  readonly label: "top" | "bottom";
  readonly of: (mix: ComparedMix) => number;
}

/** Runs on halves of accelerators keep neither bound: there it is only what whole ones could carry. */
function measuresOf({ parts }: Kind): readonly Measure[] {
  const top = { label: "top" } as const;
  const rival: Measure = { ...top, name: "default ÷ best rival", colour: GOOD, of: (m) => m.goodputRps / m.rivalRps };
  const bound: Omit<Measure, "name"> = { label: "bottom", colour: NEUTRAL, of: (m) => m.goodputRps / m.boundRps };
  if (parts) return [rival, { ...bound, name: "default ÷ clairvoyant bound of whole accelerators" }];
  const tight: Omit<Measure, "name"> = { ...top, colour: LATE, of: (m) => m.goodputRps / m.nonPreemptiveRps };
  return [
    rival,
    { ...tight, name: "default ÷ non-preemptive bound" },
    { ...bound, name: "default ÷ clairvoyant bound" },
  ];
}

interface Ranked {
  readonly mix: ComparedMix;
  readonly ratio: number;
}

const ranked = (mixes: readonly ComparedMix[], { of }: Measure): readonly Ranked[] =>
  mixes.map((mix) => ({ mix, ratio: of(mix) })).toSorted((a, b) => a.ratio - b.ratio);

/** By nearest rank. */
const quantileOf = (all: readonly Ranked[], quantile: number): number => Math.round(quantile * (all.length - 1));

function picture(kind: Kind, judged: readonly ComparedMix[], asked: number): ReturnType<typeof chart> {
  const dots = measuresOf(kind).map((measure) => {
    const all = ranked(judged, measure);
    const named = new Map([
      [quantileOf(all, 0.5), "median"],
      [quantileOf(all, 0.1), "tenth"],
      [0, "worst"],
    ]);
    const data = all.map(({ ratio }, i) => {
      const label = named.get(i);
      const value = [(100 * (i + 0.5)) / all.length, ratio];
      if (label === undefined) return value;
      const text = { show: true, formatter: `${label} ${ratio.toFixed(2)}`, position: measure.label, distance: 6 };
      return { value, symbolSize: 11, label: { ...text, color: measure.colour, fontWeight: "bold", fontSize: 12 } };
    });
    return { type: "scatter", name: measure.name, color: measure.colour, symbolSize: 6, data };
  });
  const equal = line({
    ...{ name: "equal", colour: NEUTRAL, marks: false, dashed: true },
    points: [
      [0, 1],
      [100, 1],
    ],
  });
  const left = asked - judged.length;
  const note = `${judged.length} of ${asked} mixes from seed ${kind.first} on, in which 1 % of every model is at least ${BAD_LEAST} requests${left === 0 ? "" : `; ${left} left out`}`;
  return chart({
    ...{ title: kind.title, note },
    x: { name: "share of the mixes (%), each series sorted by itself", min: 0, max: 100 },
    y: { name: "ratio of goodputs", min: 0 },
    series: [...dots, equal],
  });
}

function rowsOf(kind: Kind, judged: readonly ComparedMix[], all: readonly ComparedMix[]): readonly Row[] {
  const shared = { policy: "default", unit: "×", paper: "" };
  const firstOf = (seed: number): MixPoint => ({ seed, parts: kind.parts, rivals: kind.rivals });
  const ofAll = { ...shared, mixes: all.length, first: firstOf(kind.first) };
  const measured = measuresOf(kind).flatMap((measure): Row[] => {
    const sorted = ranked(judged, measure);
    if (sorted.length === 0) return [];
    const mean = Math.exp(sorted.reduce((sum, { ratio }) => sum + Math.log(ratio), 0) / sorted.length);
    const at = (name: string, place: number): Row => {
      const { mix, ratio } = sorted[place]!;
      const what = `${measure.name}: ${name}, mix ${mix.seed}`;
      return { ...shared, what, ours: ratio, mixes: 1, first: firstOf(mix.seed) };
    };
    return [
      { ...ofAll, what: `${measure.name}: geometric mean of ${sorted.length} mixes`, ours: mean },
      at("worst", 0),
      at("a tenth is below", quantileOf(sorted, 0.1)),
      at("median", quantileOf(sorted, 0.5)),
    ];
  });
  return [
    ...measured,
    ...all.map((mix): Row => ({ ...shared, ...mixRow(mix, kind), mixes: 1, first: firstOf(mix.seed) })),
  ];
}

function mixRow(mix: ComparedMix, { parts }: Kind): { readonly what: string; readonly ours: number | null } {
  const { seed, gpus, models, arrivals, rival, badLeast, goodputRps, nonPreemptiveRps, boundRps, rivalRps } = mix;
  const rests = `1 % is ${Math.floor(badLeast)} requests${badLeast < BAD_LEAST ? ", left out" : ""}`;
  const clairvoyant = (goodputRps / boundRps).toFixed(3);
  const bounds = parts
    ? `${clairvoyant} of the bound of whole accelerators`
    : `${(goodputRps / nonPreemptiveRps).toFixed(3)} and ${clairvoyant} of the bounds`;
  const what = `mix ${seed} (${gpus} accelerators, ${models} models, ${arrivals}; ${rests}): default ÷ ${rival}; ${bounds}`;
  return { what, ours: rivalRps > 0 ? goodputRps / rivalRps : null };
}
