/**
 * A run with pipelines: production's instances (`@tutti/pipelines`) over any scheduler of the simulator.
 *
 *   PR1. A stage's requests have the pipeline's deadline for that stage, counted from its arrival: the next stage gets
 *        the time that one stage saves.
 *   PR2. A stage begins when the answers of those before it have reached the ingress, and its function has run.
 *   PR3. When a request of a stage is refused, the whole request to the pipeline is. Its requests that still wait in a
 *        queue are withdrawn; those in a batch run.
 */
import { IndexedHeap } from "@tutti/collections";
import { Instance, type StageSpec } from "@tutti/pipelines";
import { TuttiError } from "@tutti/protocol";
import { ALWAYS, type Instant, type Micros, NEVER, Prng } from "@tutti/units";
import { ArrivedRequest, ParticularRequest } from "../scenario/arrived-request.ts";
import { Judge } from "../results/metrics.ts";
import { clusterOf } from "../cluster/policies.ts";
import type { SimulationResult } from "../results/result.ts";
import type { DetailedRun, RunListener, RunOptions } from "../run.ts";
import type { Scenario, ScenarioPipeline } from "../scenario/scenario.ts";
import {
  type SimBatch,
  type SimListener,
  type SimRefusal,
  type SimRequest,
  type SteppedCluster,
  isStepped,
} from "../cluster/simulated-cluster.ts";
import { StreamTallies } from "../results/stream-tallies.ts";
import { createWorkload } from "../scenario/workload.ts";
import { PipelineJudge } from "./pipeline-judge.ts";
import { type PipelinePlan, modelsUnderPipelines, planPipeline } from "./pipeline-plan.ts";

const NOTHING = new Uint8Array(0);
/** Most pending events: functions that run, answers on their way. */
const EVENTS_MAX = 1 << 24;

export function simulatePipelined(scenario: Scenario, options: RunOptions): DetailedRun {
  return new PipelinedRun(scenario, scenario.pipelines!, options).run();
}

/** A request of a stage. */
class StageRequest extends ArrivedRequest {
  readonly course: Course;
  readonly stage: string;
  readonly index: number;

  constructor(
    id: number,
    at: Instant,
    slo: Micros,
    of: { model: number; course: Course; stage: string; index: number },
  ) {
    super(id, of.model, at, slo);
    this.course = of.course;
    this.stage = of.stage;
    this.index = of.index;
  }
}

/** One request to a pipeline. */
interface Course {
  readonly pipeline: number;
  readonly arrivedAt: Instant;
  readonly instance: Instance<{ readonly bytes: number }>;
  /** All requests of each stage, by index; undefined once they are answered or withdrawn. */
  readonly out: Map<string, (StageRequest | undefined)[]>;
  /** The stage that refused it. */
  refusedBy: string;
}

class PipelinedRun implements SimListener {
  readonly #scenario: Scenario;
  readonly #plans: readonly PipelinePlan[];
  readonly #judge: Judge;
  /** Tallies of publishers' requests to models directly. */
  readonly #direct: StreamTallies;
  readonly #pipelineJudge: PipelineJudge;
  readonly #listener: RunListener | undefined;
  readonly #cluster: SteppedCluster;
  readonly #fanOuts: readonly Prng[];
  readonly #events = new IndexedHeap(EVENTS_MAX);
  readonly #eventOf: ((() => void) | undefined)[] = [];
  readonly #spare: number[] = [];
  #eventSeq = 0;
  #now: Instant = ALWAYS;
  #requests = 0;

  constructor(scenario: Scenario, pipelines: readonly ScenarioPipeline[], options: RunOptions) {
    const { gpus, gather, prefer, network, seed } = scenario;
    this.#scenario = scenario;
    this.#plans = pipelines.map((pipeline) => planPipeline(pipeline, scenario.models));
    const models = modelsUnderPipelines(scenario, this.#plans);
    this.#judge = new Judge({ ...scenario, models });
    this.#direct = new StreamTallies(models.length);
    this.#pipelineJudge = new PipelineJudge(scenario, pipelines, (at) => this.#judge.counts(at));
    this.#listener = options.listener;
    const create = options.cluster ?? clusterOf(scenario);
    const cluster = create({
      ...{ models, gpus, gather, network, seed, listener: this },
      ...(prefer !== undefined && { prefer }),
    });
    if (!isStepped(cluster))
      throw new Error(`policy '${scenario.policy}' can't be stopped between two events, as pipelines need it`);
    this.#cluster = cluster;
    // Each pipeline has a generator of its own. Policies see the same fan-outs only where the order of preparations is
    // the same.
    const root = new Prng(seed ^ 0x70697065);
    this.#fanOuts = pipelines.map(() => root.fork());
  }

  run(): DetailedRun {
    const { models } = this.#scenario;
    const workload = createWorkload(targetsOf(this.#scenario));
    let next = workload.next();
    for (;;) {
      const arrivalAt = next?.arrivedAt ?? NEVER;
      const eventAt = this.#events.topPriority as Instant;
      const clusterAt = this.#cluster.nextAt();
      const first = arrivalAt < eventAt ? arrivalAt : eventAt;
      if (clusterAt < first) {
        this.#now = clusterAt > this.#now ? clusterAt : this.#now;
        this.#cluster.runUntil(this.#now);
      } else if (first === NEVER) break;
      else if (eventAt <= arrivalAt) this.#fire(eventAt);
      else {
        this.#now = arrivalAt;
        if (next!.model < models.length) this.#ask(next!);
        else this.#begin(next!.model - models.length);
        next = workload.next();
      }
    }
    return this.#detailed();
  }

  dispatched(batch: SimBatch, at: Instant): void {
    this.#listener?.dispatched?.(batch, at);
  }
  refused(request: SimRequest, cause: SimRefusal, at: Instant): void {
    this.#judge.refused(request);
    this.#listener?.refused(request, cause, at);
    if (!(request instanceof StageRequest)) return this.#noteBad(request);
    const { course, stage, index } = request;
    course.out.get(stage)![index] = undefined;
    this.#soon(this.#answersAt(at), () => {
      if (course.refusedBy === "") course.refusedBy = stage;
      course.instance.stageFailed(stage, ERRORS[cause]);
    });
  }
  finished(batch: SimBatch, begin: Instant, end: Instant, completed: boolean): void {
    this.#judge.finished(batch, begin, end, completed);
    this.#listener?.finished(batch, begin, end, completed);
    if (!completed) return;
    const at = this.#answersAt(end);
    for (const request of batch.requests) {
      if (!(request instanceof StageRequest)) {
        if (at > request.deadline) this.#noteBad(request);
        continue;
      }
      const { course, stage, index } = request;
      course.out.get(stage)![index] = undefined;
      this.#soon(at, () => course.instance.answered(stage, index, NOTHING));
    }
  }

  /** Sends a publisher's request to a model. It is numbered anew, since stages' requests have numbers too. */
  #ask({ model, arrivedAt, slo, app, solo, units }: SimRequest): void {
    const id = ++this.#requests;
    if (this.#judge.counts(arrivedAt)) this.#direct.noteOffered(model, slo);
    if (solo === 0) this.#send(new ArrivedRequest(id, model, arrivedAt, slo));
    else this.#send(new ParticularRequest(id, model, arrivedAt, { slo, app, solo, units }));
  }
  #noteBad({ model, slo, arrivedAt }: SimRequest): void {
    if (this.#judge.counts(arrivedAt)) this.#direct.noteBad(model, slo);
  }

  #send(request: SimRequest): void {
    this.#judge.arrived(request);
    this.#listener?.arrived?.(request);
    this.#cluster.arrive(request);
  }

  #begin(pipeline: number): void {
    const plan = this.#plans[pipeline]!;
    const arrivedAt = this.#now;
    this.#pipelineJudge.arrived(pipeline, arrivedAt);
    const out = new Map<string, (StageRequest | undefined)[]>();
    const instance: Course["instance"] = new Instance(plan.spec, {
      prepare: ({ name }) => {
        const { step } = plan.pipeline.stages.find((stage) => stage.name === name)!;
        this.#soon((this.#now + step) as Instant, () => {
          const requests = this.#draw(pipeline, name, course);
          out.set(name, new Array<StageRequest | undefined>(requests).fill(undefined));
          instance.prepared(name, new Array<Uint8Array>(requests).fill(NOTHING));
        });
      },
      send: (stage, index) => this.#sendStage(course, stage, index),
      withdraw: ({ name }, index) => this.#withdraw(course, name, index),
      finish: () => this.#soon(this.#now, () => instance.finished(NOTHING)),
      answer: () => this.#pipelineJudge.answered(pipeline, arrivedAt, this.#now),
      refuse: () => this.#pipelineJudge.refused(pipeline, arrivedAt, course.refusedBy),
    });
    const course: Course = { pipeline, arrivedAt, instance, out, refusedBy: "" };
    instance.begin();
  }

  #sendStage(course: Course, { name }: StageSpec, index: number): void {
    const { pipeline, ends } = this.#plans[course.pipeline]!;
    const { model } = pipeline.stages.find((stage) => stage.name === name)!;
    const deadline = course.arrivedAt + ends.get(name)!;
    const slo = Math.max(0, deadline - this.#now) as Micros;
    const request = new StageRequest(++this.#requests, this.#now, slo, { model, course, stage: name, index });
    course.out.get(name)![index] = request;
    this.#send(request);
  }

  /** Withdraws a request of a stage (PR3). */
  #withdraw({ out }: Course, stage: string, index: number): void {
    const request = out.get(stage)![index];
    if (request === undefined || this.#cluster.withdraw?.(request, this.#now) !== true) return;
    out.get(stage)![index] = undefined;
    this.#judge.refused(request);
    this.#listener?.refused(request, "withdrawn", this.#now);
  }

  /** Number of requests of a stage: the fan-out on average, and a whole number for each request of the stage before. */
  #draw(pipeline: number, name: string, course: Course): number {
    const { after, fanOut } = this.#plans[pipeline]!.pipeline.stages.find((stage) => stage.name === name)!;
    const sources = after.length === 1 ? course.out.get(after[0]!)!.length : 1;
    const [whole, part] = [Math.floor(fanOut), fanOut % 1];
    let requests = whole * sources;
    if (part > 0) for (let i = 0; i < sources; i++) if (this.#fanOuts[pipeline]!.nextFloat() < part) requests++;
    return requests;
  }

  #answersAt(end: Instant): Instant {
    return (end + this.#scenario.network.respond) as Instant;
  }

  #soon(at: Instant, event: () => void): void {
    const slot = this.#spare.pop() ?? this.#eventOf.length;
    this.#eventOf[slot] = event;
    this.#events.set(slot, at, ++this.#eventSeq);
  }
  #fire(at: Instant): void {
    this.#now = at;
    const slot = this.#events.pop();
    const event = this.#eventOf[slot]!;
    this.#eventOf[slot] = undefined;
    this.#spare.push(slot);
    event();
  }

  #detailed(): DetailedRun {
    const { models } = this.#scenario;
    const streams = [...this.#direct.all(), ...this.#pipelineJudge.streams(models.length)];
    const seconds = (this.#scenario.duration - this.#scenario.warmup) / 1e6;
    const offered = streams.reduce((sum, stream) => sum + stream.offered, 0);
    const bad = streams.reduce((sum, stream) => sum + stream.bad, 0);
    const result: SimulationResult = {
      ...this.#judge.result(),
      offeredRps: offered / seconds,
      goodRps: (offered - bad) / seconds,
      badRate: offered > 0 ? bad / offered : 0,
      pipelines: this.#pipelineJudge.results(),
    };
    return { result, streams };
  }
}

/** The scenario with its pipelines as further models: publishers send requests to both. */
function targetsOf(scenario: Scenario): Parameters<typeof createWorkload>[0] {
  const pipelines = scenario.pipelines!.map(({ name, slo, share }) => ({ name, slo, share, classes: [] }));
  return { ...scenario, models: [...scenario.models, ...pipelines] };
}

const ERRORS: Readonly<Record<SimRefusal, TuttiError>> = {
  infeasible: new TuttiError("TUTTI_DEADLINE_INFEASIBLE", "its deadline can't be met"),
  overloaded: new TuttiError("TUTTI_OVERLOADED", "overloaded"),
  preempted: new TuttiError("TUTTI_OVERLOADED", "preempted"),
  withdrawn: new TuttiError("TUTTI_CANCELLED", "withdrawn"),
};
