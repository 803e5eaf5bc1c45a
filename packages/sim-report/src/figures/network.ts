/** Goodput against the delay of the network, in the ranges of RDMA and of TCP: Figure 14. */
import { type Figure, type System, pick } from "./figure.ts";
import { type Found, goodputCurves, goodputRow, searchAll } from "./searches.ts";

const SLOS = [20, 25, 50, 100];
const RANGES = [
  { name: "rdma", text: "RDMA's range", delays: [0, 24, 33, 100], unit: { name: "network delay (µs)", us: 1 } },
  {
    name: "tcp",
    text: "TCP's range",
    delays: [0, 500, 1000, 3000, 5000, 10_000],
    unit: { name: "network delay (ms)", us: 1000 },
  },
];

export const network: Figure = {
  name: "network",
  title: "Goodput against network delay",
  paper: "Figure 14: marginal loss within RDMA's range, up to 70 % within TCP's tail; the tighter the SLO, the more",
  draw: async (bench, scale) => {
    const durationS = pick(scale, 11, scale.durationS);
    const drawn = await Promise.all(
      RANGES.map(async ({ name, text, delays, unit }) => {
        const kept = pick(scale, delays, [delays[0]!, delays.at(-2)!]);
        const bySlo = await Promise.all(
          pick(scale, SLOS, [25, 100]).map(async (sloMs) => {
            const system: System = { policy: "default", label: `SLO ${sloMs} ms` };
            const places = kept.map((us) => ({
              x: us / unit.us,
              set: { sloMs: String(sloMs), delayUs: String(us) },
            }));
            const [found] = await searchAll(bench, { file: "figure14", places, systems: [system], durationS });
            return found!;
          }),
        );
        const option = goodputCurves(bySlo, {
          title: network.title,
          note: `20 equally popular models like ResNet50, 32 accelerators; ${text}`,
          x: { name: unit.name, min: 0 },
          y: { name: "goodput (% of that without delay)", min: 0 },
          value: (found) => share(found, bySlo),
        });
        const rows = bySlo.flatMap((found) =>
          found.map((one) => goodputRow(one, `${one.system.label}, network delay ${one.point.set?.["delayUs"]} µs`)),
        );
        return { chart: { name: `network-${name}`, option }, rows };
      }),
    );
    return { charts: drawn.map(({ chart }) => chart), rows: drawn.flatMap(({ rows }) => rows) };
  },
};

function share({ system, goodputRps }: Found, series: readonly (readonly Found[])[]): number {
  const without = series.find((own) => own[0]?.system.label === system.label)?.[0]?.goodputRps ?? 0;
  return without === 0 ? 0 : (100 * goodputRps) / without;
}
