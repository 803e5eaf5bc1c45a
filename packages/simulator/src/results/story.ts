/** The story of one request, in sentences. It is told from the decisions alone, so an old log is enough. */
import { type Micros, formatDuration } from "@tutti/units";
import { type Decision, type DecisionHeader, DecisionRecorder, decisionHeader } from "./decision-log.ts";
import { simulate } from "../run.ts";
import type { Scenario } from "../scenario/scenario.ts";

type Of<E extends Decision["event"]> = Extract<Decision, { event: E }>;
type Arrival = Of<"arrive">;
type Dispatch = Of<"dispatch">;

/**
 * Receives a run's decisions in order, and keeps those that the story of one request needs. Bounded by the requests
 * that wait and run.
 */
export class StoryTeller {
  readonly sentences: string[] = [];
  readonly #header: DecisionHeader;
  readonly #id: number;
  /** Waiting requests by model, in order of arrival. */
  readonly #waiting: readonly Map<number, Arrival>[];
  readonly #unfinished = new Map<number, Arrival>();
  readonly #running = new Map<number, Dispatch>();
  /** Batches given to each accelerator and not ended, oldest first. */
  readonly #onGpu = new Map<number, number[]>();
  #own: Arrival | undefined;

  constructor(header: DecisionHeader, requestId: number) {
    this.#header = header;
    this.#id = requestId;
    this.#waiting = header.models.map(() => new Map<number, Arrival>());
  }

  hear(decision: Decision): void {
    switch (decision.event) {
      case "arrive":
        return this.#arrived(decision);
      case "refuse":
        return this.#refused(decision);
      case "dispatch":
        return this.#dispatched(decision);
      case "finish":
        return this.#finished(decision);
    }
  }

  #arrived(arrival: Arrival): void {
    if (arrival.request === this.#id) this.#tellArrival((this.#own = arrival));
    this.#unfinished.set(arrival.request, arrival);
    this.#waiting[arrival.model]!.set(arrival.request, arrival);
  }

  #tellArrival({ request, model, at, deadline, lastDeadline }: Arrival): void {
    const { name, unfit = [] } = this.#header.models[model]!;
    const slo = formatDuration((deadline - at) as Micros);
    this.#tell(
      `Request ${request} for ${name} arrived at ${ms(at)}; its answer was due ${slo} later, by ${ms(deadline)}.`,
    );
    if (lastDeadline !== undefined)
      this.#tell(`Its costs have later steps: an answer was still worth something until ${ms(lastDeadline)}.`);
    for (const { type, soloUs } of unfit) {
      const solo = formatDuration(soloUs as Micros);
      this.#tell(`It isn't given a ${type} accelerator: even alone it would take ${solo} there.`);
    }
    const others = [...this.#waiting[model]!.values()];
    const head = others.toSorted((a, b) => a.deadline - b.deadline || a.request - b.request)[0];
    if (head === undefined)
      this.#tell(`No other request of its model waited: it began a candidate of its own. ${this.#load()}`);
    else {
      const waited = others.length === 1 ? "One request" : `${others.length} requests`;
      this.#tell(
        `${waited} of its model waited already: it joined the candidate led by request ${head.request}. ${this.#load()}`,
      );
    }
  }

  #refused({ request, cause, at }: Of<"refuse">): void {
    const arrival = this.#unfinished.get(request);
    this.#unfinished.delete(request);
    if (arrival !== undefined) this.#waiting[arrival.model]!.delete(request);
    if (request !== this.#id || arrival === undefined) return;
    const left = formatDuration(Math.max(0, (arrival.lastDeadline ?? arrival.deadline) - at) as Micros);
    const solo = formatDuration(this.#header.models[arrival.model]!.soloUs as Micros);
    const behind = this.#waiting[arrival.model]!.size;
    const waited = formatDuration((at - arrival.at) as Micros);
    if (cause === "infeasible") {
      this.#tell(
        `It was refused at ${ms(at)}, after ${waited}, as infeasible: ${left} were left, and even alone it would have taken ${solo} once an accelerator had it. ${this.#load()}`,
      );
    } else if (cause === "overloaded") {
      this.#tell(
        `It was refused at ${ms(at)}, after ${waited}, to keep batches efficient: with ${left} left it could have run only in a small batch, so it made way for the ${behind} waiting behind it. ${this.#load()}`,
      );
    } else this.#tell(`It was given up at ${ms(at)}: its batch had been thrown away, and ${left} were left.`);
  }

  #dispatched(batch: Dispatch): void {
    if (batch.requests.includes(this.#id)) this.#tellDispatch(batch);
    for (const request of batch.requests) this.#waiting[batch.model]!.delete(request);
    this.#running.set(batch.batch, batch);
    const queue = this.#onGpu.get(batch.gpu);
    if (queue === undefined) this.#onGpu.set(batch.gpu, [batch.batch]);
    else queue.push(batch.batch);
  }

  #tellDispatch(batch: Dispatch): void {
    const { requests } = batch;
    const place = requests.indexOf(this.#id);
    const later = requests.filter((request) => request > this.#id).length;
    const joined = later === 0 ? "none of which came after it" : `${later} of which came after it`;
    this.#tell(
      requests.length === 1
        ? `At ${ms(batch.at)} it went to accelerator ${batch.gpu} as batch ${batch.batch}, alone.`
        : `At ${ms(batch.at)} it went to accelerator ${batch.gpu} in batch ${batch.batch}, as number ${place + 1} of ${requests.length} by deadline, ${joined}.`,
    );
    this.#tell(this.#reason(batch));
  }

  /** The reason why the batch started when it did. */
  #reason({ plan, gpu, requests }: Dispatch): string {
    const before = this.#onGpu.get(gpu)?.[0];
    if (plan === undefined) {
      return before === undefined ? "The accelerator was idle." : `The accelerator still had batch ${before} to end.`;
    }
    const { start, frontrun, free, latest } = plan;
    if (free !== null && start === free && (frontrun === null || start > frontrun)) {
      const wished = frontrun === null ? "The batch was full" : `The batch was ready to start from ${ms(frontrun)}`;
      return `${wished} and waited for an accelerator: this one was the first to be free, at ${ms(free)}; ${ms(latest)} would have been the last moment.`;
    }
    if (frontrun === null) return `The batch was full, so it waited for nothing more and was to start at ${ms(start)}.`;
    if (start === frontrun) {
      return `It was to start at ${ms(start)}: until then one more request could have joined without making request ${requests[0]} late (its last moment was ${ms(latest)}).`;
    }
    return start < frontrun
      ? `It was to start at ${ms(start)}, earlier than it had to: joining was possible until ${ms(frontrun)}, the last moment was ${ms(latest)}.`
      : `It was to start at ${ms(start)}, at once: for one more to join, it would have had to start by ${ms(frontrun)}; its last moment was ${ms(latest)}.`;
  }

  #finished({ batch: id, gpu, at, start, completed }: Of<"finish">): void {
    const batch = this.#running.get(id);
    this.#running.delete(id);
    const queue = this.#onGpu.get(gpu);
    if (queue !== undefined) queue.splice(queue.indexOf(id) >>> 0, 1);
    if (batch === undefined) return;
    if (batch.requests.includes(this.#id)) this.#tellFinish(batch, start, at, completed);
    for (const request of batch.requests) {
      const arrival = this.#unfinished.get(request);
      if (completed) this.#unfinished.delete(request);
      else if (arrival !== undefined) this.#waiting[batch.model]!.set(request, arrival);
    }
  }

  #tellFinish({ batch, gpu }: Dispatch, start: number, end: number, completed: boolean): void {
    const run = formatDuration((end - start) as Micros);
    const where = `on accelerator ${gpu} from ${ms(start)} to ${ms(end)} (${run})`;
    if (!completed) return this.#tell(`Batch ${batch} ran ${where} and was then thrown away for another.`);
    const spare = this.#own!.deadline - end;
    const verdict = spare >= 0 ? "before" : "after";
    const margin = formatDuration(Math.abs(spare) as Micros);
    this.#tell(`Batch ${batch} ran ${where}: the result was ready ${margin} ${verdict} the deadline.`);
    const last = this.#own!.lastDeadline;
    if (spare < 0 && last !== undefined && end <= last)
      this.#tell("It had missed its deadline, and was served for a later step of its costs.");
  }

  #load(): string {
    const busy = [...this.#onGpu.values()].filter((queue) => queue.length > 0).length;
    return `${busy} of ${this.#header.gpus} accelerators had work.`;
  }
  #tell(sentence: string): void {
    this.sentences.push(sentence);
  }
}

/** A request's story from a log; undefined where no request of that id arrived. */
export function explain(header: DecisionHeader, decisions: Iterable<Decision>, requestId: number): string | undefined {
  const teller = new StoryTeller(header, requestId);
  for (const decision of decisions) teller.hear(decision);
  return told(teller);
}

/** Runs a scenario for the story of one request; undefined where no request of that id arrived. */
export function tellStory(scenario: Scenario, requestId: number): string | undefined {
  const teller = new StoryTeller(decisionHeader(scenario), requestId);
  simulate(scenario, { listener: new DecisionRecorder((decision) => teller.hear(decision)) });
  return told(teller);
}

const told = ({ sentences }: StoryTeller): string | undefined =>
  sentences.length === 0 ? undefined : sentences.join("\n");
const ms = (at: number): string => `${(at / 1000).toFixed(3)} ms`;
