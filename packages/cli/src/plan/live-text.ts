/** Text of `tutti plan --live`. */
import { DIVIDED_LEAST, bytesText } from "@tutti/planning/live";
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

function loads({ subClusters, current, undividedRps, division }: LivePlan): string {
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
  const below = [...subClusters.flatMap(boundsText), ...divisionText(subClusters, undividedRps)];
  return [renderTable(head, rows), ...below, ...choiceText(division)].join("\n");
}

/** `1,488 (then le waits)`. */
const carriedText = ({ carriedRps, waits }: Pick<LivePlan["subClusters"][number], "carriedRps" | "waits">): string =>
  carriedRps === undefined ? "-" : `${figure(carriedRps)}${waits === undefined ? "" : ` (then ${waits} waits)`}`;

/** `main: memory binds (9.5 GB of 10 GB, 1.5 GB of them for a run).` */
function boundsText({ subCluster, binds = [], ...load }: LivePlan["subClusters"][number]): string[] {
  const { rate, rateMax = 0, busy, memoryBytes, dynamicBytes = 0, memoryBytesMax = 0 } = load;
  const ofRuns = dynamicBytes > 0 ? `, ${bytesText(dynamicBytes)} of them for a run` : "";
  const ofRanker = busy === undefined ? "" : `, and its ranker is busy for ${share(busy)}`;
  const texts = {
    memory: `${bytesText(memoryBytes + dynamicBytes)} of ${bytesText(memoryBytesMax)}${ofRuns}`,
    rate: `${figure(rate)} r/s of ${figure(rateMax)}${ofRanker}`,
  };
  return binds.map((bound) => `${subCluster}: ${bound} binds (${texts[bound]}).`);
}

/** The number of sub-clusters, and why the planner uses no other one. */
function choiceText(division: LivePlan["division"]): string[] {
  if (division === null) return [];
  const { asked, used, needed, because, dividedRps, undividedRps } = division;
  const expected =
    dividedRps === undefined || undividedRps === undefined
      ? ""
      : ` All ${asked} would carry ${figure(dividedRps)} r/s of this mix, one ${figure(undividedRps)}.`;
  const why = {
    demanded: "as --sub-clusters-min says",
    rankers:
      needed > asked ? `and rankers are too busy: ${needed} are needed` : "since rankers would be too busy in fewer",
    memory: "since the models' memory needs them",
    cheap: "since dividing costs little",
    costly: `since more would carry less than ${share(DIVIDED_LEAST)} of what one carries (--sub-clusters-min ${asked} divides all the same)`,
    unknown: "until it is known what dividing costs",
  }[because];
  return [`${used} of ${plural(asked, "sub-cluster")} ${used === 1 ? "is" : "are"} used, ${why}.${expected}`];
}

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
