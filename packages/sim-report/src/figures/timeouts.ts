/** Time-outs from 0 (eager) to the SLO against deferred dispatch: Figure 6b. */
import { type Figure, type Point, pick, systems } from "./figure.ts";
import { type Found, goodputCurves, goodputRow } from "./searches.ts";

const WORKLOADS = [
  { file: "figure6b-single", name: "ResNet50, SLO 50 ms, 8 accelerators" },
  { file: "figure6b-mixed", name: "37 models, 64 accelerators" },
];

export const timeouts: Figure = {
  name: "timeouts",
  title: "Time-outs from 0 to the SLO",
  paper:
    "Figure 6b: for one model the best time-out equals deferred, for 37 none comes near; too long a one loses again",
  draw: async (bench, scale) => {
    const shares = pick(scale, [0, 2.5, 5, 7.5, 10, 15, 20, 30, 40, 60, 80, 100], [0, 10, 100]);
    const durationS = pick(scale, 11, scale.durationS);
    const asked = WORKLOADS.map(({ file, name }) => {
      const timed = shares.map((share): Point => ({ file, policy: `timeout:${share}%`, durationS }));
      const others = systems("deferred", "default").map(({ policy }): Point => ({ file, policy, durationS }));
      return { name, points: [...timed, ...others] };
    });
    const found = await Promise.all(asked.map(({ points }) => bench.goodput(points)));
    const all = asked.map(({ name, points }, i) => {
      const results = points.map((point, k): Found => {
        const label = k < shares.length ? name : point.policy;
        return {
          system: { policy: point.policy, label },
          point,
          x: shares[k] ?? -1,
          goodputRps: found[i]![k]!.goodputRps,
        };
      });
      return { name, timed: results.slice(0, shares.length), others: results.slice(shares.length) };
    });
    const deferredOf = (one: Found): number => all.find(({ name }) => name === one.system.label)!.others[0]!.goodputRps;
    const option = goodputCurves(
      all.map(({ timed }) => timed),
      {
        title: timeouts.title,
        note: "Poisson arrivals, equal rates",
        x: { name: "time-out (% of each model's SLO)", min: 0, max: 100 },
        y: { name: "goodput (% of deferred dispatch)", min: 0 },
        value: (one) => (100 * one.goodputRps) / Math.max(1, deferredOf(one)),
      },
    );
    const rows = all.flatMap(({ name, timed, others }) => [
      ...timed.map((one) => goodputRow(one, `${name}: time-out at ${one.x} % of the SLO`)),
      ...others.map((one) => goodputRow(one, name)),
    ]);
    return { charts: [{ name: "timeouts", option }], rows };
  },
};
