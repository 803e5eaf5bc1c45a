/** Charts of one recording or of several side by side. */
import type { EChartsCoreOption } from "echarts/core";
import { BAD, GOOD, LATE, NEUTRAL, colourOf } from "../palette.ts";
import type { DelayBins, TimelineRecording } from "../timeline-recorder.ts";
import { chart, line } from "./axes.ts";

export interface Heading {
  readonly title?: string;
  readonly note?: string;
}

export interface NamedRecording {
  readonly name: string;
  readonly recording: TimelineRecording;
}

/** Shares of batches by size, and shares of requests by the size of their batch. */
export function batchSizeChart({ batchSizes }: TimelineRecording): EChartsCoreOption {
  const sizes = [...batchSizes.keys()].slice(1);
  const batches = sum(batchSizes);
  const requests = batchSizes.reduce((total, count, size) => total + count * size, 0);
  const bars = (name: string, color: string, share: (size: number) => number): object => ({
    ...{ type: "bar", name, color, data: sizes.map((size) => round(100 * share(size))) },
  });
  return chart({
    x: { name: "batch size (requests)", categories: sizes.map(String) },
    y: { name: "share (%)", min: 0 },
    series: [
      bars("of batches", NEUTRAL, (size) => batchSizes[size]! / Math.max(1, batches)),
      bars("of requests", colourOf(0, 1), (size) => (size * batchSizes[size]!) / Math.max(1, requests)),
    ],
  });
}

export function queueDelayChart({ queueDelays }: TimelineRecording): EChartsCoreOption {
  const total = sum(queueDelays.counts);
  const width = queueDelays.width / 1000;
  const used = 1 + queueDelays.counts.findLastIndex((count) => count > 0);
  const shares = [...queueDelays.counts.slice(0, used)].map((count, bin) => [
    round((bin + 0.5) * width),
    round((100 * count) / Math.max(1, total)),
  ]);
  return chart({
    x: { name: `from arrival to the start of the batch (ms, bins of ${width})`, min: 0 },
    y: { name: "share of requests (%)", min: 0 },
    series: [{ type: "bar", name: "requests", color: colourOf(0, 1), barCategoryGap: "8%", data: shares }],
  });
}

/** Good and bad requests per second, by the moment when they arrived. */
export function rateChart({ rates }: TimelineRecording, durationS: number): EChartsCoreOption {
  const seconds = rates.width / 1e6;
  const area = (name: string, colour: string, counts: Float64Array): object => ({
    ...{ type: "line", name, color: colour, showSymbol: false, stack: "offered", step: "end", data: inTime(counts) },
    lineStyle: { width: 1 },
    areaStyle: { opacity: 0.55 },
  });
  const inTime = (counts: Float64Array): number[][] => {
    const points = [...counts].map((count, bin) => {
      const from = bin * seconds;
      const span = Math.min(seconds, durationS - from); // the last bin may be a part only
      return [round(from), round(count / (span > 0 ? span : seconds))];
    });
    return [...points, [round(durationS), points.at(-1)![1]!]];
  };
  return chart({
    x: { name: "time of arrival (s)", min: 0, max: round(durationS) },
    y: { name: "requests per second", min: 0 },
    series: [area("good", GOOD, rates.good), area("late", LATE, rates.late), area("refused", BAD, rates.refused)],
  });
}

export function busyChart({ busy }: TimelineRecording, windowS: number): EChartsCoreOption {
  const shares = [...busy].map((time) => round((100 * time) / (windowS * 1e6)));
  return chart({
    x: { name: "accelerator", categories: shares.map((_, gpu) => `#${gpu}`) },
    y: { name: "busy (% of the time)", min: 0, max: 100 },
    series: [{ type: "bar", name: "busy", color: colourOf(0, 1), data: shares }],
  });
}

/** Share of requests that ran in a batch of at most each size. */
export function batchSizeCurves(runs: readonly NamedRecording[], heading: Heading = {}): EChartsCoreOption {
  return chart({
    ...heading,
    x: { name: "batch size (requests)", min: 0 },
    y: { name: "requests in batches of at most that size (%)", min: 0, max: 100 },
    legend: true,
    series: runs.map(({ name, recording }, i) => {
      const weights = recording.batchSizes.map((count, size) => count * size);
      const points = cumulative(weights).map((share, size) => [size, share] as const);
      return stepLine(name, points, colourOf(i, runs.length));
    }),
  });
}

export function queueDelayCurves(runs: readonly NamedRecording[], heading: Heading = {}): EChartsCoreOption {
  return chart({
    ...heading,
    x: { name: "from arrival to the start of the batch (ms)", min: 0 },
    y: { name: "requests that waited at most that long (%)", min: 0, max: 100 },
    legend: true,
    series: runs.map(({ name, recording }, i) => {
      const points = delayPoints(recording.queueDelays);
      return line({ name, points, colour: colourOf(i, runs.length), marks: false });
    }),
  });
}

export function badRateCurves(runs: readonly NamedRecording[], durationS: number): EChartsCoreOption {
  return chart({
    x: { name: "time of arrival (s)", min: 0, max: round(durationS) },
    y: { name: "refused or late (% of requests)", min: 0 },
    legend: true,
    series: runs.map(({ name, recording: { rates } }, i) => {
      const points = [...rates.good].map((good, bin) => {
        const bad = rates.late[bin]! + rates.refused[bin]!;
        return [round((bin * rates.width) / 1e6), round((100 * bad) / Math.max(1, good + bad))] as const;
      });
      return line({ name, points, colour: colourOf(i, runs.length), marks: false });
    }),
  });
}

/** (ms, % that waited at most that long), from (0, 0) to the last bin in use. */
function delayPoints({ width, counts }: DelayBins): (readonly [number, number])[] {
  const used = 1 + counts.findLastIndex((count) => count > 0);
  const shares = cumulative(counts.subarray(0, used));
  return [[0, 0], ...shares.map((share, bin) => [round(((bin + 1) * width) / 1000), share] as const)];
}

const stepLine = (name: string, points: readonly (readonly [number, number])[], colour: string): object => ({
  ...line({ name, points, colour, marks: false }),
  step: "end",
});

/** Cumulative counts, in percent of the total. */
function cumulative(counts: Float64Array): number[] {
  const total = Math.max(1, sum(counts));
  let below = 0;
  return [...counts].map((count) => {
    below += count;
    return round((100 * below) / total);
  });
}

const sum = (counts: Float64Array): number => counts.reduce((total, count) => total + count, 0);
/** Six digits are more than a chart shows, and keep the page small. */
const round = (value: number): number => Number(value.toPrecision(6));
