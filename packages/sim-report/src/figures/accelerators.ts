/** Goodput against the number of accelerators (Figure 13, right), and the fewest for a given rate (Figure 10). */
import { type Figure, type Point, type Row, pick, baselines, systems } from "./figure.ts";
import { barChart, goodputCurves, goodputRow, searchAll } from "./searches.ts";

export const accelerators: Figure = {
  name: "accelerators",
  title: "Goodput against accelerators",
  paper: "Figure 13, right: Symphony's goodput grows linearly with the accelerators",
  draw: async (bench, scale) => {
    const counts = pick(scale, [8, 16, 32, 64, 128, 256, 512, 1000], [8, 16]);
    const places = counts.map((gpus) => ({ x: gpus, set: { gpus: String(gpus) } }));
    // Rates are large enough here that a few seconds hold a million requests.
    const durationS = pick(scale, 5, scale.durationS);
    const own = systems("default", "deferred", "eager", "clockwork");
    const series = await searchAll(bench, { file: "figure13", places, systems: own, durationS });
    const option = goodputCurves(series, {
      title: accelerators.title,
      note: "20 equally popular models like ResNet50, SLO 100 ms, Poisson arrivals",
      x: { name: "accelerators", scale: "log2", min: 8, max: 2 ** Math.ceil(Math.log2(Math.max(...counts))) },
      y: { name: "goodput (requests per second)", scale: "log" },
    });
    const rows = series.flatMap((found) =>
      found.map((one) => {
        const linear = one.system.policy === "deferred" ? "linear in the accelerators" : "";
        return goodputRow(one, `goodput of ${one.x} accelerators`, linear);
      }),
    );
    return { charts: [{ name: "accelerators", option }], rows };
  },
};

const RATE = 15_000;
const WORKLOADS = [
  { file: "figure10-resnet50", name: "ResNet50, SLO 25 ms" },
  { file: "figure6b-mixed", name: "37 models" },
];

const PAPER_MINIMUM: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "figure10-resnet50": {
    nexus: "2 to 6 more than Symphony",
    shepherd: "2 to 6 more than Symphony",
    clockwork: "over twice the others",
  },
  "figure6b-mixed": { nexus: "+166 % over Symphony", shepherd: "+90 % over Symphony", clockwork: "not reached" },
};

export const fewestAccelerators: Figure = {
  name: "fewest-accelerators",
  title: "Fewest accelerators for 15,000 requests per second",
  paper: "Figure 10: Nexus and Shepherd need 166 % and 90 % more than Symphony for the mix, 2 to 6 more for ResNet50",
  draw: async (bench, scale) => {
    const rate = pick(scale, RATE, 3000);
    const asked = WORKLOADS.flatMap((workload) =>
      baselines().map((system) => {
        const point: Point = { file: workload.file, policy: system.policy, rate };
        return { workload, system, point };
      }),
    );
    const found = await bench.minGpus(asked.map(({ point }) => point));
    const bars = asked.map(({ workload, system }, i) => {
      return { group: workload.name, label: system.label, value: found[i]!.minGpus ?? NaN };
    });
    const rows = asked.map(({ workload, system, point }, i): Row => ({
      what: `${workload.name}: fewest accelerators for ${rate} r/s`,
      policy: system.policy,
      ours: found[i]!.minGpus ?? null,
      unit: "accelerators",
      paper: PAPER_MINIMUM[workload.file]?.[system.policy] ?? "",
      verb: "min-gpus",
      point,
    }));
    const drawn = bars.filter(({ value }) => Number.isFinite(value));
    const chart = barChart(drawn, {
      name: "fewest-accelerators",
      title: `Fewest accelerators for ${rate.toLocaleString("en-US")} requests per second`,
      note: "profiles of the A100, Poisson arrivals; no bar where no number suffices",
      y: "accelerators",
    });
    return { charts: [chart], rows };
  },
};
