/**
 * A page for a plan: a bar for each node, executor or sub-cluster, with a segment for each share. Nothing moves, so the
 * page needs no script.
 */
import { colourOf, escapeHtml, htmlPage } from "@tutti/sim-report/page";
import type { FractionsResult } from "./fractions-plan.ts";
import type { PackInput } from "./pack-input.ts";
import type { PackResult } from "./pack-plan.ts";
import { figure, plural, share } from "./plan-text.ts";
import type { QueryResult } from "./query-plan.ts";
import type { ScaleResult } from "./scale-plan.ts";
import type { SubClustersResult } from "./subclusters-plan.ts";

export interface PlanPage {
  readonly title: string;
  readonly note: string;
  /** Meaning of a bar's whole width. */
  readonly whole: string;
  readonly bars: readonly Bar[];
  /** Names with a colour of their own, in this order. */
  readonly names: readonly string[];
}
interface Bar {
  readonly name: string;
  readonly segments: readonly Segment[];
}
interface Segment {
  /** Selects the colour. */
  readonly name: string;
  readonly label: string;
  /** Share of the bar: 0 … 1. */
  readonly share: number;
  readonly tip: string;
}

export function renderPlanPage(page: PlanPage, reasons: readonly string[], source: string): string {
  const colours = new Map(page.names.map((name, i) => [name, colourOf(i, page.names.length)]));
  const body = [
    `<h1>${escapeHtml(page.title)}</h1>`,
    `<p class="note">${escapeHtml(page.note)}</p>`,
    `<p class="note"><code>${escapeHtml(source)}</code></p>`,
    `<h2>${escapeHtml(page.whole)}</h2>`,
    `<table>${page.bars.map((one) => barRow(one, colours)).join("\n")}</table>`,
    `<h2>Why</h2>`,
    `<ul>${reasons.map((reason) => `<li>${escapeHtml(reason)}</li>`).join("\n")}</ul>`,
  ].join("\n");
  return htmlPage({ title: page.title, body, data: undefined });
}

const barRow = ({ name, segments }: Bar, colours: ReadonlyMap<string, string>): string =>
  `<tr><td>${escapeHtml(name)}</td><td style="width:100%"><div style="display:flex;height:26px;background:#eef1f3">${segments
    .map((segment) => segmentBox(segment, colours.get(segment.name)))
    .join("")}</div></td></tr>`;

const segmentBox = ({ label, tip, share: width }: Segment, colour: string | undefined): string =>
  `<div title="${escapeHtml(tip)}" style="width:${(100 * Math.min(1, width)).toFixed(2)}%;background:${colour ?? "transparent"};color:#fff;font-size:12px;line-height:26px;overflow:hidden;white-space:nowrap;text-overflow:ellipsis;padding:0;text-indent:6px;box-shadow:inset -1px 0 #fff">${escapeHtml(label)}</div>`;

export function packPage({ names }: PackInput, { nodes, work }: PackResult): PlanPage {
  return {
    title: `${plural(names.length, "stream")} on ${plural(nodes.length, "node")}`,
    note: `No plan needs fewer than ${figure(work)}.`,
    whole: "A node's duty cycle, and what fills it",
    names,
    bars: nodes.map(({ node, dutyCycleMs, streams }) => ({
      name: `node ${node}, ${figure(dutyCycleMs)} ms`,
      segments: streams.map(({ stream, rate, batchSize, batchMs, worstMs, sloMs }) => ({
        name: stream,
        label: `${stream} by ${batchSize}`,
        share: batchMs / dutyCycleMs,
        tip: `${stream}: ${figure(rate)} r/s, ${batchSize} in ${figure(batchMs)} ms, answered within ${figure(worstMs)} of ${figure(sloMs)} ms`,
      })),
    })),
  };
}

export function fractionsPage({ executors, models, used }: FractionsResult): PlanPage {
  const served = models.filter(({ rate }) => rate > 0);
  return {
    title: `${plural(served.length, "model")} on ${plural(used, "accelerator")}`,
    note: served.map(({ model, rate }) => `${model} ${figure(rate)} r/s`).join(" · "),
    whole: "An accelerator and its parts",
    names: served.map(({ model }) => model),
    bars: executors.map(({ executor, parts }) => ({
      name: `accelerator ${executor}`,
      segments: parts.map(({ size, models: items, dutyCycleMs, occupancy }) => ({
        name: items[0]?.model ?? "",
        label: `${size} %: ${items.map(({ model, batchSize }) => `${model} by ${batchSize}`).join(" + ")}`,
        share: size / 100,
        tip: `${size} %, a cycle of ${figure(dutyCycleMs ?? 0)} ms, ${share(occupancy)} occupied`,
      })),
    })),
  };
}

export function subClustersPage({ subClusters, models }: SubClustersResult): PlanPage {
  const most = Math.max(...subClusters.map(({ rate }) => rate), 1e-9);
  const byName = new Map(models.map((model) => [model.model, model]));
  return {
    title: `${plural(models.length, "model")} over ${plural(subClusters.length, "sub-cluster")}`,
    note: subClusters.map(({ subCluster, staticMb }) => `${subCluster}: ${figure(staticMb)} MB`).join(" · "),
    whole: `Requests per second of each sub-cluster; the longest bar is ${figure(most)} r/s`,
    names: models.map(({ model }) => model),
    bars: subClusters.map(({ subCluster, rate, models: names }) => ({
      name: `sub-cluster ${subCluster}, ${figure(rate)} r/s`,
      segments: names.map((name) => ({
        ...{ name, label: name, share: byName.get(name)!.rate / most },
        tip: `${name}: ${figure(byName.get(name)!.rate)} r/s, ${figure(byName.get(name)!.staticMb)} MB`,
      })),
    })),
  };
}

export function queryPage({ sloMs, rate, planned, even, stages }: QueryResult): PlanPage {
  const splits = [
    ["planned", planned],
    ["even", even],
  ] as const;
  return {
    title: `A query of ${plural(stages.length, "stage")} within ${figure(sloMs)} ms`,
    note: `${figure(rate)} queries per second`,
    whole: "The time of each stage; branches stand one after the other, though they run side by side",
    names: stages,
    bars: splits.map(([name, split]) => ({
      name: split === undefined ? `${name}: impossible` : `${name}: ${figure(split.executors)} executors`,
      segments: (split?.stages ?? []).map(({ stage, budgetMs, batchSize, executors }) => ({
        ...{ name: stage, label: `${stage} by ${batchSize}` },
        share:
          budgetMs /
          Math.max(
            sloMs,
            split!.stages.reduce((sum, one) => sum + one.budgetMs, 0),
          ),
        tip: `${stage}: ${figure(budgetMs)} ms, batches of ${batchSize}, ${figure(executors)} executors`,
      })),
    })),
  };
}

export function scalePage({ windows }: ScaleResult): PlanPage {
  const most = Math.max(...windows.map(({ gpus, fewest }) => Math.max(gpus, fewest ?? 0)));
  const names = ["used", "idle"];
  return {
    title: `${plural(windows.length, "window")} of a forecast`,
    note: windows.map(({ rate }) => figure(rate)).join(", ") + " requests per second",
    whole: `Accelerators in each window; the longest bar is ${most}`,
    names,
    bars: windows.map(({ window, rate, gpus, idleShare, badRate, fewest }) => ({
      name: `${window}: ${figure(rate)} r/s, ${gpus} accelerators`,
      segments: [
        { name: "used", label: `${share(badRate)} bad`, share: (gpus * (1 - idleShare)) / most, tip: "busy" },
        {
          ...{ name: "idle", label: fewest === undefined ? "" : `fewest ${fewest}` },
          ...{ share: (gpus * idleShare) / most, tip: `${share(idleShare)} idle` },
        },
      ],
    })),
  };
}
