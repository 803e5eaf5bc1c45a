/** Text of `tutti plan pack`: the nodes with their streams, and the reason for each stream's place. */
import { type Obstacle, type PackingStep, saturated } from "@tutti/planning";
import { renderTable } from "@tutti/admin";
import type { PackInput } from "./pack-input.ts";
import type { ItemResult, NodeResult, PackResult, PackRun } from "./pack-plan.ts";
import { bar, cutRows, figure, listed, plural, share } from "./plan-text.ts";

export function renderPack(input: PackInput, result: PackResult): string {
  const { nodes, work, unplaced, epoch } = result;
  const dedicated = nodes.filter((node) => node.dedicated).length;
  const occupied = nodes.reduce((sum, { occupancy }) => sum + occupancy, 0);
  const { rows, more } = cutRows(grouped(nodes).map((group) => nodeRow(group, input.memoryMb)));
  const lines = [
    `${plural(input.streams.length, "stream")} on ${plural(nodes.length, "node")}, ${dedicated} of them dedicated; ` +
      `${figure(occupied)} occupied, and no plan needs fewer than ${figure(work)}`,
    "",
    renderTable(["node", "cycle", "occupied", "", "memory", "streams"], rows),
    ...more,
  ];
  if (epoch !== undefined) lines.push("", ...epochLines(epoch));
  for (const { stream, rate, reason } of unplaced)
    lines.push("", `Not placed: ${stream} at ${figure(rate)} r/s: ${REFUSED[reason as keyof typeof REFUSED]}`);
  return lines.join("\n");
}

const REFUSED = {
  "slo-too-short": "not even a batch of one fits twice into its SLO, and a request may have to wait for a whole batch",
  "too-large": "its weights are larger than a node's memory",
};

/** Groups successive nodes that do the same into one line. */
function grouped(nodes: readonly NodeResult[]): (readonly NodeResult[])[] {
  const groups: NodeResult[][] = [];
  for (const node of nodes) {
    const last = groups.at(-1)?.[0];
    if (last !== undefined && node.dedicated && last.dedicated && isSame(last.streams[0]!, node.streams[0]!))
      groups.at(-1)!.push(node);
    else groups.push([node]);
  }
  return groups;
}
const isSame = (a: ItemResult, b: ItemResult): boolean => a.stream === b.stream && a.rate === b.rate;

function nodeRow(group: readonly NodeResult[], memoryMb: number): string[] {
  const [{ node, dutyCycleMs, occupancy, memoryMb: resident, streams }] = group as readonly [NodeResult];
  const last = group.at(-1)!.node;
  const items = streams.map(
    ({ stream, rate, batchSize, worstMs, sloMs }) =>
      `${stream} ${figure(rate)} r/s by ${batchSize} (${figure(worstMs)} of ${figure(sloMs)} ms)`,
  );
  return [
    last === node ? String(node) : `${node}–${last}`,
    `${figure(dutyCycleMs)} ms`,
    share(occupancy),
    bar(occupancy),
    memoryMb === Infinity ? figure(resident) : `${figure(resident)} of ${figure(memoryMb)}`,
    items.join(", "),
  ];
}

function epochLines({ nodesBefore, loads, unloads }: NonNullable<PackResult["epoch"]>): string[] {
  const moves = (list: typeof loads): string =>
    listed(
      list.map(({ stream, node }) => `${stream} at node ${node}`),
      8,
    );
  if (loads.length + unloads.length === 0) return [`${plural(nodesBefore, "node")} before; nothing moves.`];
  return [`${plural(nodesBefore, "node")} before. To load: ${moves(loads)}. To unload: ${moves(unloads)}.`];
}

/** One or more sentences for each stream, in the order of the file. */
export function explainPack(input: PackInput, { steps, result, plan }: PackRun): string[] {
  return input.streams.map((stream) => {
    const { id, slo, rate } = stream;
    const name = input.names[id]!;
    const alone = saturated(stream);
    const heading = `${name} (${figure(1000 * rate)} r/s within ${figure(slo)} ms):`;
    const refusal = result.unplaced.find((one) => one.stream === name);
    if (refusal !== undefined) return `${heading} not placed: ${REFUSED[refusal.reason as keyof typeof REFUSED]}.`;
    const capacity =
      alone === undefined
        ? ""
        : ` A node with nothing else carries ${figure(1000 * alone.rate)} r/s in batches of ${alone.batchSize}, the best with 2·l(b) ≤ SLO (C1).`;
    const own = steps.filter((step) => "stream" in step && step.stream.id === id);
    const told = own.length === 0 ? [UNTOUCHED] : sentences(own, input.names);
    const joined = joinedBy(steps, id, input.names);
    const turned = plan.nodes
      .filter((node) => node.isDedicated && node.items[0]!.stream.id === id)
      .filter((node) => own.some((step) => step.kind === "raised" && step.node === node.id))
      .map(
        (node) => ` Node ${node.id} now runs nothing else: smaller batches between others can't sustain its rate (C2).`,
      );
    return `${heading}${capacity}${told.map((text) => ` ${text}`).join("")}${turned.join("")}${joined}`;
  });
}

const UNTOUCHED = "Its rate is as before, and it stays where it is (C4).";

function sentences(steps: readonly PackingStep[], names: readonly string[]): string[] {
  const saturating = steps.filter((step) => step.kind === "saturated");
  const told: string[] = [];
  if (saturating.length > 0) {
    const [{ node, rate }] = saturating as [(typeof saturating)[number]];
    const last = saturating.at(-1)!.node;
    const where = saturating.length === 1 ? `Node ${node} is its own` : `Nodes ${node} to ${last} are its own`;
    told.push(`${where}, saturated: ${figure(1000 * rate * saturating.length)} r/s, batch after batch.`);
  }
  for (const step of steps) if (step.kind !== "saturated") told.push(sentenceOf(step, names));
  return told;
}

function sentenceOf(step: PackingStep, names: readonly string[]): string {
  switch (step.kind) {
    case "saturated":
    case "just-below":
      return `${figure(1000 * step.rate)} r/s are just below what a node carries, and smaller batches can't sustain them: node ${step.node} is dedicated to them, in batches of ${step.batchSize} (C2).`;
    case "merged": {
      const beside = step.before.items.map(({ stream }) => names[stream.id]!);
      const own = step.after.items.find(({ stream }) => stream.id === step.stream.id)!;
      const best = step.choices === 1 ? "the only node with room" : `of ${step.choices} nodes with room the fullest`;
      return `${residue(step)} They share node ${step.after.id} with ${listed(beside)}, ${best} (best fit, C3): a cycle of ${figure(step.after.dutyCycle)} ms, ${own.batchSize} at a time, and the node is ${share(step.after.occupancy)} occupied.`;
    }
    case "opened":
      return `${residue(step)} ${refusalText(step.refusals)} so node ${step.node} was opened for them.`;
    case "kept":
      return step.rate === step.before
        ? UNTOUCHED
        : "Its rate has changed by less than 3 %, and its nodes bear it: nothing moves (C4).";
    case "lowered":
      return `Node ${step.node} carries ${figure(1000 * step.rate)} r/s instead of ${figure(1000 * step.before)}; surplus leaves the emptiest nodes first (C4, 1).`;
    case "raised":
      return `Node ${step.node} carries ${figure(1000 * step.rate)} r/s instead of ${figure(1000 * step.before)}: where it is already, nothing has to be loaded (C4, 2).`;
    case "evicted":
      return `Node ${step.node} can't carry it any more (${WHY[step.why]}), and of what is there it is the smallest part: its ${figure(1000 * step.rate)} r/s leave (C4, 3).`;
    case "released":
      return "";
  }
}

const residue = ({ rate, alone }: Extract<PackingStep, { kind: "merged" | "opened" }>): string =>
  `${figure(1000 * rate)} r/s gather ${alone.batchSize} in ${figure(alone.dutyCycle)} ms and would fill ${share(alone.occupancy)} of a node (residue, C2).`;

const WHY: Readonly<Record<Obstacle, string>> = {
  dedicated: "it is dedicated to one stream",
  "same-stream": "it has this stream already",
  rate: "the rate needs a node of its own",
  slo: "a cycle and a batch would take longer than an SLO",
  time: "the batches of a cycle would take longer than the cycle",
  memory: "the weights don't fit together",
};

/** Names the nodes without room by reason, without the dedicated ones. */
function refusalText(refusals: Extract<PackingStep, { kind: "opened" }>["refusals"]): string {
  const open = refusals.filter(({ why }) => why !== "dedicated");
  if (open.length === 0) return "No node was open,";
  const reasons = [...new Set(open.map(({ why }) => why))].map((why) => {
    const nodes = open.filter((one) => one.why === why).map(({ node }) => String(node));
    return `with node${nodes.length === 1 ? "" : "s"} ${listed(nodes)} ${WHY[why]}`;
  });
  return `No open node had room: ${reasons.join("; ")};`;
}

function joinedBy(steps: readonly PackingStep[], id: number, names: readonly string[]): string {
  const guests = steps.filter(
    (step) =>
      step.kind === "merged" &&
      step.stream.id !== id &&
      step.before.items.some(({ stream, batchSize }) => {
        const now = step.after.items.find((item) => item.stream.id === stream.id)!;
        return stream.id === id && now.batchSize !== batchSize;
      }),
  );
  return guests
    .map((step) => {
      const { stream, before, after } = step as Extract<PackingStep, { kind: "merged" }>;
      const [was, is] = [before, after].map(({ items }) => items.find((item) => item.stream.id === id)!.batchSize);
      return ` Since ${names[stream.id]} shares its node, its batches are ${is} instead of ${was}.`;
    })
    .join("");
}
