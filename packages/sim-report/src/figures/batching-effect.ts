/** Eager against deferred as batching saves more: Figure 6a. */
import { type Figure, pick, systems } from "./figure.ts";
import { goodputCurves, goodputRow, searchAll } from "./searches.ts";

export const batchingEffect: Figure = {
  name: "batching-effect",
  title: "Eager against deferred by strength of batching",
  paper: "Figure 6a: nearly equal at β/α = 1; the stronger the batching, the more deferred gains",
  draw: async (bench, scale) => {
    const ratios = pick(scale, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], [1, 15]);
    const places = ratios.map((beta) => ({ x: beta, set: { beta: String(beta) } }));
    const own = systems("deferred", "default", "eager");
    const durationS = pick(scale, 11, scale.durationS);
    const series = await searchAll(bench, { file: "figure6a", places, systems: own, durationS });
    const deferred = series[0]!;
    const option = goodputCurves(series, {
      title: batchingEffect.title,
      note: "10 equal models, 32 accelerators, α = 1 ms, SLO 2·l(8), Poisson arrivals",
      x: { name: "β/α", min: 0 },
      y: { name: "goodput (% of deferred dispatch)", min: 0 },
      value: ({ x, goodputRps }) =>
        (100 * goodputRps) / Math.max(1, deferred.find((one) => one.x === x)?.goodputRps ?? 0),
    });
    const rows = series.flatMap((found) => {
      return found.map((one) => {
        const equal = one.x === 1 && one.system.policy === "eager" ? "nearly that of deferred" : "";
        return goodputRow(one, `goodput at β/α = ${one.x}`, equal);
      });
    });
    return { charts: [{ name: "batching-effect", option }], rows };
  },
};
