/** Text of `tutti plan --live`. */
import { bytesText } from "@tutti/planning/live";
import { renderTable } from "@tutti/admin";
import type { LivePlan } from "@tutti/admin/operators";
import { cutRows, figure, listed, plural, share } from "./plan-text.ts";

/** Number of reasons to show, newest first. */
const REASONS_SHOWN = 20;

export function renderLivePlan(plan: LivePlan): string {
  if (plan.epoch === 0) return "Nobody has planned yet: every model and accelerator belongs to the sub-cluster main.";
  const { current, difference, leftOut, reasons } = plan;
  const counts = [plural(current.models.length, "model"), plural(current.accelerators.length, "accelerator")];
  const seen = plan.seenS === null ? "no planner has said what it sees" : `seen ${ageText(plan.seenS)} ago`;
  const head = `Plan ${plan.epoch}, made ${ageText(plan.madeS ?? 0)} ago (${seen}): ${counts.join(" and ")}`;
  const parts = [head, adviceText(plan), "", loads(plan), "", models(plan)].filter((part) => part !== undefined);
  const changes = [
    ...difference.models.map(
      ({ model, from, to, state }) =>
        `${model}: ${from} → ${to} (${state === "moving" ? "is being loaded there" : "waits for room"})`,
    ),
    ...difference.accelerators.map(({ gpu, from, to }) => `accelerator ${gpu}: ${from} → ${to} (loads what it lacks)`),
    ...leftOut.map(({ model, text }) => `${model} ${text}`),
  ];
  parts.push("", changes.length === 0 ? "The next plan is the same." : "The next plan:", ...changes.map(item));
  if (reasons.length > 0) {
    const shown = reasons.slice(-REASONS_SHOWN).toReversed();
    parts.push("", "Why, the newest first:");
    parts.push(...shown.map(({ ageS, about, text }) => item(`${about} ${text} (${ageText(ageS)} ago)`)));
  }
  return parts.join("\n");
}

const item = (text: string): string => `- ${text}`;

function adviceText({ advice }: LivePlan): string | undefined {
  if (advice === null || advice.gpus === 0) return undefined;
  const { gpus, advice: change, badRate, idleShare } = advice;
  const what = change === 0 ? "as many as there are" : change > 0 ? `${change} more` : `${-change} fewer`;
  return `Advice: ${plural(gpus + change, "accelerator")}, ${what}; ${share(badRate)} bad, ${share(idleShare)} idle`;
}

function loads({ subClusters, current, undividedRps }: LivePlan): string {
  const rows = subClusters
    .filter(({ gpus, subCluster }) => gpus > 0 || current.models.some((model) => model.subCluster === subCluster))
    .map((load) => [
      ...[load.subCluster, figure(load.rate), carriedText(load), figure(load.work), String(load.gpus)],
      ...[figure(load.gpusIdeal), bytesText(load.memoryBytes)],
      listed(
        current.models.filter(({ subCluster }) => subCluster === load.subCluster).map(({ model }) => model),
        8,
      ),
    ]);
  const head = ["sub-cluster", "r/s", "carries", "work", "accelerators", "its share", "memory", "models"];
  return [renderTable(head, rows), ...divisionText(subClusters, undividedRps)].join("\n");
}

/** `1,488 (then le waits)`. */
const carriedText = ({ carriedRps, waits }: Pick<LivePlan["subClusters"][number], "carriedRps" | "waits">): string =>
  carriedRps === undefined ? "-" : `${figure(carriedRps)}${waits === undefined ? "" : ` (then ${waits} waits)`}`;

/** The cost of being divided: the sub-cluster that is fullest limits all others. */
function divisionText(subClusters: LivePlan["subClusters"], undividedRps: number | null): string[] {
  const used = subClusters.filter(({ rate }) => rate > 0);
  if (undividedRps === null || used.some(({ carriedRps }) => carriedRps === undefined)) return [];
  const rate = used.reduce((sum, one) => sum + one.rate, 0);
  const dividedRps = Math.min(...used.map((one) => (rate * one.carriedRps!) / one.rate));
  const advice = dividedRps < DIVIDED_LEAST * undividedRps ? ": fewer sub-clusters carry more" : "";
  return [
    `Undivided these accelerators carry ${figure(undividedRps)} r/s of this mix, in ${used.length} sub-clusters ${figure(dividedRps)}${advice}.`,
  ];
}
/** Share of what an undivided cluster carries below which a division is worth a remark. */
const DIVIDED_LEAST = 0.9;

function models({ current, next }: LivePlan): string {
  const { rows, more } = cutRows(
    current.models.map(({ model, subCluster, rate, work, memoryBytes }, i) => [
      ...[model, subCluster, next.models[i]!.subCluster === subCluster ? "" : `→ ${next.models[i]!.subCluster}`],
      ...[rate === null ? "-" : figure(rate), work === null ? "-" : figure(work)],
      memoryBytes === null ? "-" : bytesText(memoryBytes),
    ]),
  );
  return [renderTable(["model", "served in", "next", "r/s", "work", "memory"], rows), ...more].join("\n");
}

const ageText = (s: number): string => (s < 120 ? `${Math.round(s)} s` : `${Math.round(s / 60)} min`);
