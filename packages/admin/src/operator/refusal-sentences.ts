/** Why a request was refused or answered late, in sentences: nothing in them is guessed. */
import type { RefusalBatchTold, RefusalQueueTold, RefusedRequest } from "@tutti/protocol";
import { type Micros, actorToken, between, before, formatDuration } from "@tutti/units";

export function refusalSentences(request: RefusedRequest): string[] {
  const { refusal, queue, batch } = request;
  return [
    endSentence(request),
    ...(queue === undefined ? [] : queueSentences(queue)),
    ...(batch === undefined ? [] : [batchSentence(request, batch)]),
    ...pulledSentence(request),
    ...timeSentences(request),
    ...(refusal === undefined ? [] : [`The publisher was told${reasonText(refusal)}${againText(refusal)}.`]),
  ];
}

/**
 * At least this SLO would have been needed. Undefined: unknown, or its SLO was long enough, and nothing ran in time.
 */
export function leastSlo({ slo, refusal }: Pick<RefusedRequest, "slo" | "refusal">): Micros | undefined {
  const feasible = refusal?.feasible;
  return feasible !== undefined && feasible > (slo ?? 0) ? feasible : undefined;
}

function endSentence({ refusal, lateBy, waited, slo }: RefusedRequest): string {
  const asked = slo === undefined ? "before its SLO was read" : `with an SLO of ${formatDuration(slo)}`;
  const after = `${formatDuration(waited)} after it had come, ${asked}`;
  if (refusal === undefined) return `It was answered ${formatDuration(lateBy ?? (0 as Micros))} late: ${after}.`;
  return `The ${refusal.by} ${actorToken(refusal.actor)} refused it (${refusal.code.replace("TUTTI_", "")}) ${after}.`;
}

function queueSentences(queue: RefusalQueueTold): string[] {
  const { queued, inFlight } = queue;
  const others = `${count(queued, "other request")} of its queue ${queued === 1 ? "was" : "were"} waiting`;
  const batches = `${count(inFlight, "batch", "batches")} ${inFlight === 1 ? "was" : "were"} under way`;
  const waited = WAITED.get(queue.waitedFor)?.(queue);
  return [...(waited === undefined ? [] : [waited]), `${others}, and ${batches}.`];
}

/** By the words of WAITED_FOR; a newer batcher may know others. */
const WAITED = new Map<string, (queue: RefusalQueueTold) => string>([
  ["nothing", () => "It could not be met any more when it reached its batcher."],
  ["batch", () => "It waited for other requests to run with: its batch was not due yet."],
  ["accelerator", (queue) => `It waited for an accelerator: ${acceleratorText(queue)}.`],
  ["room", () => "Its queue was full."],
  ["share", () => "Its model was overloaded, and the share of its application or priority was used up."],
]);

function acceleratorText({ accelerators, idle }: RefusalQueueTold): string {
  if (accelerators === 0) return "none serves its model";
  const busy = accelerators === 1 ? "the one that serves was busy" : `all ${accelerators} that serve were busy`;
  const free = `${idle} of the ${accelerators} that serve ${idle === 1 ? "was" : "were"} idle`;
  return `as far as its batcher knew, ${idle === 0 ? busy : free}`;
}

function batchSentence(request: RefusedRequest, batch: RefusalBatchTold): string {
  const { size, executor, gpu, startedAt, finishedAt } = batch;
  const arrivedAt = before(request.at, request.waited);
  const [wait, run, rest] = [
    between(arrivedAt, startedAt),
    between(startedAt, finishedAt),
    between(finishedAt, request.at),
  ].map(formatDuration);
  const where = `on accelerator ${gpu} of executor ${actorToken(executor)}`;
  return `Its batch of ${size} started ${wait} after it had come ${where}, ran for ${run}, and the outcome left ${rest} later.`;
}

function pulledSentence({ pulledBy }: RefusedRequest): string[] {
  return pulledBy === undefined
    ? []
    : [`The executor ${actorToken(pulledBy)} had its inputs, and sent no result in time.`];
}

function timeSentences(request: RefusedRequest): string[] {
  const { queue, slo } = request;
  const sentences: string[] = [];
  if (queue !== undefined && slo !== undefined)
    sentences.push(
      `By itself on a free accelerator it would have needed ${formatDuration(queue.alone)} of its ${formatDuration(slo)}.`,
    );
  const feasible = leastSlo(request);
  if (feasible !== undefined) {
    const more = slo === undefined ? "" : `, ${formatDuration((feasible - slo) as Micros)} more than it had`;
    // Its batcher reckons with an accelerator that is free at that moment, and none was.
    const still = queue?.waitedFor === "accelerator" ? ", even with an accelerator free by then" : "";
    sentences.push(`An SLO of at least ${formatDuration(feasible)} would have been needed${more}${still}.`);
  }
  return sentences;
}

/** Stands where a text is left out. */
export const NOT_KEPT = "the publisher was told; the text may quote its input, and is not kept";

const reasonText = ({ text }: NonNullable<RefusedRequest["refusal"]>): string =>
  text === undefined ? " the reason in a text that may quote its input, and is not kept" : `: "${text}"`;

function againText({ retryable, retryAfterMs }: NonNullable<RefusedRequest["refusal"]>): string {
  if (!retryable) return ", and that it may not send it again unchanged";
  return retryAfterMs === undefined
    ? ", and that it may send it again"
    : `, and that it may send it again after ${retryAfterMs} ms`;
}

const count = (number: number, one: string, many = `${one}s`): string => `${number} ${number === 1 ? one : many}`;
