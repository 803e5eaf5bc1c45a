/** The two model zoos by system, and what several frontends cost: Figure 9. */
import { type Bench, type Drawing, type Figure, type Scale, type System, pick, systems } from "./figure.ts";
import { type Found, barChart, goodputRow, searchAll } from "./searches.ts";

const ZOOS = ["1080ti", "a100"] as const;
const TITLES = { "1080ti": "1080Ti", a100: "A100" };
const MIXES = ["mixed", "strong", "weak"] as const;

async function search(bench: Bench, scale: Scale, own: readonly System[]): Promise<readonly Found[]> {
  const places = ZOOS.flatMap((zoo) => MIXES.map((mix, x) => ({ x, set: { zoo: `${zoo}-${mix}` } })));
  const durationS = pick(scale, 11, scale.durationS);
  const series = await searchAll(bench, { file: "figure9", places, systems: own, durationS });
  return series.flat();
}

const isOf = (zoo: string) => (found: Found) => found.point.set?.["zoo"]?.startsWith(zoo) === true;
const mixOf = ({ x }: Found): string => MIXES[x]!;
const NOTE = "64 accelerators, equal rates, Poisson arrivals; strong: β/α > 2";

const PAPER: Readonly<Record<string, string>> = {
  "1080ti-mixed": "2.0 to 2.4 times the others",
  "a100-mixed": "2.0 to 2.4 times the others",
  "1080ti-strong": "3.5 times the others",
  "a100-strong": "5.7 times the others",
  "1080ti-weak": "23 % above the others",
  "a100-weak": "10 % above the others",
};

export const zoos: Figure = {
  name: "zoos",
  title: "The model zoos by system",
  paper: "Figure 9: Symphony has 2.0 to 2.4 times the goodput of the others, 3.5 and 5.7 times for strong batching",
  draw: async (bench, scale) => {
    const own = systems(
      "default",
      "deferred",
      "eager",
      "clockwork",
      "nexus",
      "nexus:8",
      "shepherd",
      "clipper",
      "triton",
      "capped",
    );
    const found = await search(bench, scale, own);
    return drawing(found, "zoos", zoos.title, ({ system, point }) =>
      system.policy === "deferred" ? PAPER[point.set!["zoo"]!]! : "",
    );
  },
};

export const frontends: Figure = {
  name: "frontends",
  title: "One frontend against many",
  paper: "Figure 9: Nexus with eight frontends has 11 % to 45 % less goodput than with one",
  draw: async (bench, scale) => {
    const nexus = systems("nexus", "nexus:2", "nexus:4", "nexus:8");
    const many = pick(scale, nexus, [...nexus.slice(0, 1), ...nexus.slice(-1)]);
    const found = await search(bench, scale, [...systems("default"), ...many]);
    return drawing(found, "frontends", frontends.title, ({ system }) =>
      system.policy === "nexus:8" ? "11 % to 45 % below one frontend" : "",
    );
  },
};

function drawing(found: readonly Found[], name: string, title: string, paper: (found: Found) => string): Drawing {
  const charts = ZOOS.map((zoo) => {
    const bars = found
      .filter(isOf(zoo))
      .map((one) => ({ group: mixOf(one), label: one.system.label, value: one.goodputRps }));
    const titles = { name: `${name}-${zoo}`, title: `${title}: ${TITLES[zoo]}`, note: NOTE };
    return barChart(bars, { ...titles, y: "goodput (requests per second)" });
  });
  const rows = found.map((one) => {
    const zoo = ZOOS.find((each) => isOf(each)(one))!;
    return goodputRow(one, `${TITLES[zoo]} zoo, ${mixOf(one)}`, paper(one));
  });
  return { charts, rows };
}
