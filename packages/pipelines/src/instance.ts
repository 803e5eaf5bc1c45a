/**
 * One request to a pipeline on its way through the stages:
 *
 *   arrived → for each stage, once all before it are done: prepare → requests out → all answered → … → finish →
 *   answered
 *
 *   INSTANCE-1. Every instance ends exactly once, with one answer or one refusal, whatever the order of answers and
 *               refusals.
 *   INSTANCE-2. After its end nothing is prepared or sent, and what is out was withdrawn.
 *   INSTANCE-3. A stage without requests (a filter that let nothing through) is done at once, with no outputs.
 *
 * Effects may bring the next event in the same turn; whatever comes after the end is ignored.
 */
import { TuttiError } from "@tutti/protocol";
import { assert } from "@tutti/units";
import {
  PIPELINE_BYTES_MAX,
  PIPELINE_REQUESTS_MAX,
  type PipelineSpec,
  type StageSpec,
  ancestorsOf,
} from "./pipeline-spec.ts";

export interface InstanceEffects {
  /** Run the stage's function. */
  prepare(stage: StageSpec): void;
  send(stage: StageSpec, index: number, request: Uint8Array): void;
  /** Cancels a request that is no longer wanted: it was sent and not answered, or was never sent. */
  withdraw(stage: StageSpec, index: number): void;
  /** Run the pipeline's last function. */
  finish(): void;
  /** The instance ended with an answer (INSTANCE-1). */
  answer(message: Uint8Array): void;
  refuse(error: TuttiError): void;
}

export interface InstanceLimits {
  readonly requestsMax?: number;
  readonly bytesMax?: number;
}

interface Course {
  readonly stage: StageSpec;
  state: "waiting" | "preparing" | "running" | "done";
  readonly answers: (Uint8Array | undefined)[];
  open: number;
}

export class Instance<Kept extends { readonly bytes: number }> {
  readonly #out: InstanceEffects;
  readonly #courses: ReadonlyMap<string, Course>;
  readonly #ancestors: ReadonlyMap<string, ReadonlySet<string>>;
  readonly #kept = new Map<string, Kept>();
  readonly #requestsMax: number;
  readonly #bytesMax: number;
  #hasEnded = false;
  #isFinishing = false;
  #requests = 0;
  /** Bytes of outputs, and of the values that functions kept. */
  bytes = 0;

  constructor(spec: PipelineSpec, out: InstanceEffects, limits: InstanceLimits = {}) {
    this.#out = out;
    this.#requestsMax = limits.requestsMax ?? PIPELINE_REQUESTS_MAX;
    this.#bytesMax = limits.bytesMax ?? PIPELINE_BYTES_MAX;
    this.#ancestors = ancestorsOf(spec);
    this.#courses = new Map(
      spec.stages.map((stage) => [stage.name, { stage, state: "waiting", answers: [], open: 0 } satisfies Course]),
    );
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }
  /** Stages in progress, for messages: `recognise`; `finish` at the end. */
  get underway(): string {
    if (this.#isFinishing) return "finish";
    const names = [...this.#courses.values()].filter(({ state }) => state === "preparing" || state === "running");
    return names.map(({ stage }) => stage.name).join(", ");
  }

  begin(): void {
    this.#advance();
  }

  /**
   * Input of a stage's function, or of the last function (undefined). It holds outputs and kept values of the stages
   * before it, and of no others, so that it doesn't depend on which stage was faster.
   */
  known(stage?: string): {
    readonly stages: Record<string, readonly Uint8Array[]>;
    readonly kept: Record<string, Kept>;
  } {
    const names = [...(stage === undefined ? this.#courses.keys() : this.#ancestors.get(stage)!)];
    return {
      stages: Object.fromEntries(names.map((name) => [name, this.#courses.get(name)!.answers as Uint8Array[]])),
      kept: Object.fromEntries(names.flatMap((name) => (this.#kept.has(name) ? [[name, this.#kept.get(name)!]] : []))),
    };
  }

  prepared(name: string, requests: readonly Uint8Array[], kept?: Kept): void {
    const course = this.#courses.get(name);
    if (this.#hasEnded || course?.state !== "preparing") return;
    this.#requests += requests.length;
    if (this.#requests > this.#requestsMax)
      return this.stageFailed(
        name,
        new TuttiError(
          "TUTTI_TOO_LARGE",
          `${requests.length} requests make more than the ${this.#requestsMax} that one instance may have (PIPELINE_REQUESTS_MAX)`,
        ),
      );
    if (kept !== undefined) {
      this.#kept.set(name, kept);
      if (!this.#takes(name, kept.bytes)) return;
    }
    course.state = "running";
    course.open = requests.length;
    course.answers.length = requests.length;
    if (requests.length === 0) return this.#done(course);
    for (const [index, request] of requests.entries()) {
      if (this.#hasEnded) return; // one before was refused in the same turn
      this.#out.send(course.stage, index, request);
    }
  }

  /** @param outputs - owned by the instance */
  answered(name: string, index: number, outputs: Uint8Array): void {
    const course = this.#courses.get(name);
    if (this.#hasEnded || course?.state !== "running") return;
    if (index >= course.answers.length || course.answers[index] !== undefined) return;
    course.answers[index] = outputs;
    course.open--;
    if (!this.#takes(name, outputs.byteLength)) return;
    if (course.open === 0) this.#done(course);
  }

  /**
   * A stage's function or one of its requests failed: refuses the whole instance, with the stage's name in the message.
   */
  stageFailed(name: string, error: TuttiError): void {
    if (this.#hasEnded) return;
    const { code, message, retryable, retryAfterMs } = error;
    const again = retryAfterMs === undefined ? { retryable } : { retryable, retryAfterMs };
    this.end(new TuttiError(code, `stage ${name}: ${message}`, again));
  }

  finished(message: Uint8Array): void {
    if (this.#hasEnded || !this.#isFinishing) return;
    this.#hasEnded = true;
    this.#out.answer(message);
  }

  /** Ends the instance from outside: cancelled, or out of time. */
  end(error: TuttiError): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    for (const { stage, state, answers } of this.#courses.values()) {
      if (state !== "running") continue;
      for (let index = 0; index < answers.length; index++)
        if (answers[index] === undefined) this.#out.withdraw(stage, index);
    }
    this.#out.refuse(error);
  }

  #takes(name: string, bytes: number): boolean {
    this.bytes += bytes;
    if (this.bytes <= this.#bytesMax) return true;
    const text = `${this.bytes} bytes between the stages are more than the ${this.#bytesMax} that one instance may have (PIPELINE_BYTES_MAX)`;
    this.stageFailed(name, new TuttiError("TUTTI_TOO_LARGE", text));
    return false;
  }

  #done(course: Course): void {
    assert(course.open === 0, "a stage is done when all of its requests are answered");
    course.state = "done";
    this.#advance();
  }

  #advance(): void {
    for (const course of this.#courses.values()) {
      if (this.#hasEnded) return;
      if (course.state !== "waiting") continue;
      if (!course.stage.after.every((name) => this.#courses.get(name)!.state === "done")) continue;
      course.state = "preparing";
      this.#out.prepare(course.stage);
    }
    if (this.#hasEnded || this.#isFinishing) return;
    for (const { state } of this.#courses.values()) if (state !== "done") return;
    this.#isFinishing = true;
    this.#out.finish();
  }
}
