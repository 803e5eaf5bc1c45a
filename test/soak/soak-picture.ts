/** The whole soak as one picture: each process' resources, and the disk usage, over time. */
import { type Panel, colourOf, panelChart, toSvg } from "@tutti/sim-report/picture";
import { KINDS, type Kind } from "./sampler.ts";
import type { SoakRecord } from "./soak-run.ts";
import { type SoakVerdict, warmSeconds } from "./soak-verdict.ts";

const AXES: Readonly<Record<Kind, { readonly name: string; readonly per: number; readonly height: number }>> = {
  memory: { name: "memory (MB)", per: 1_048_576, height: 240 },
  descriptors: { name: "descriptors", per: 1, height: 150 },
  disk: { name: "disk (MB)", per: 1_048_576, height: 110 },
};
/** Width beside the panels, for the names of lines. */
const RIGHT = 120;
const POINTS_MAX = 600;

export function soakPicture({ chaos, series }: SoakRecord, { requests, failures }: SoakVerdict): string {
  const seconds = (chaos.endedMs - chaos.startedMs) / 1_000;
  const names = [...new Set(series.map(({ name }) => name))];
  const panels = KINDS.map((kind): Panel => {
    const { name: title, per, height } = AXES[kind];
    const own = series.filter((one) => one.kind === kind);
    const lines = own.map(({ name, samples }, i) => {
      const step = Math.max(1, Math.ceil(samples.length / POINTS_MAX));
      const shown = samples.filter((_, at) => at % step === 0);
      const color = colourOf(names.indexOf(name), names.length);
      return {
        ...{ type: "line", name, color, showSymbol: false, lineStyle: { width: 1 } },
        endLabel: { show: true, formatter: "{a}", fontSize: 10, color },
        data: shown.map(({ atS, value }) => [Math.round(atS), Number((value / per).toPrecision(4))]),
        ...(i === 0 ? { markLine: marks(chaos, warmSeconds(seconds)) } : {}),
      };
    });
    return { height, y: { name: title, min: 0 }, series: lines };
  });
  const { option, size } = panelChart({
    title: failures.length === 0 ? `${Math.round(seconds / 60)} minutes, and nothing grew` : failures[0]!.slice(0, 110),
    note: `${requests.sent} requests, ${chaos.strikes.length} strikes (grey), ${requests.lost.length} lost, ${requests.wrong.length} wrong; fitted from the black line on`,
    x: { name: "time (s)", min: 0, max: Math.ceil(seconds) },
    panels,
  });
  const grid = (option["grid"] as readonly object[]).map((one) => ({ ...one, right: RIGHT }));
  return toSvg({ ...option, grid }, size);
}

const marks = ({ strikes, startedMs }: SoakRecord["chaos"], warmS: number): object => ({
  ...{ symbol: "none", silent: true, label: { show: false } },
  data: [
    ...strikes.map(({ atMs }) => ({
      xAxis: (atMs - startedMs) / 1_000,
      lineStyle: { color: "#c0c6cc", type: "solid", width: 1 },
    })),
    { xAxis: warmS, lineStyle: { color: "#20262c", type: "solid", width: 1 } },
  ],
});
