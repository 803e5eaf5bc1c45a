/**
 * Background jobs: what a publisher submits now and reads later (docs/jobs.md). A job runner answers
 * (packages/jobs/src/job-intake.ts): plain NATS, without JetStream.
 */
import type { Delivery } from "@tutti/ports/bus";
import {
  CONTENT,
  HEADER,
  JOB_HEADER,
  type JobReceipt,
  NAME_RULE,
  TuttiError,
  isJobId,
  isModelName,
  isName,
  jobDeadline,
  jobResultsSubject,
  jobSubject,
  resultSubject,
} from "@tutti/protocol";
import { type Form, encodeRequest } from "@tutti/wire";
import { type InferResult, type TensorAnswer, readAnswer, readFailure } from "./answer.ts";
import type { ClientBus } from "./client.ts";
import type { ReplyInbox } from "./reply-inbox.ts";
import { type TensorInput, inputsToWire, tensorValue } from "./tensors.ts";

export interface SubmitOptions {
  readonly app?: string;
  /**
   * The job's id: up to 64 letters, digits, "-" and "_". A second job of the same id is the same job: it is not run
   * while outputs of that id are kept. One that failed is run again. Default: a random one.
   */
  readonly id?: string;
  /** Until when the answer is wanted, from now: `"30m"`, `"2h"`, at most 7 days. Default: 7 days. */
  readonly deadline?: string;
  readonly outputs?: readonly string[];
  readonly version?: string;
  readonly size?: number;
  readonly form?: Form;
}

export interface ResultOptions {
  /** How long to wait at most, in milliseconds; the job goes on afterwards. Default: 7 days. */
  readonly withinMs?: number;
}

/** A job that is in the queue, runs, or has ended. */
export interface Job {
  readonly id: string;
  /**
   * Waits for the outputs.
   *
   * @throws {TuttiError} as a rejection: what became of the job, or DEADLINE_EXCEEDED when `withinMs` is over
   */
  result(options?: ResultOptions): Promise<InferResult>;
  /** The outputs if the job has ended well, its error if it was given up, undefined while it waits. */
  peek(): Promise<InferResult | TuttiError | undefined>;
}

export interface SubmittedJob extends Job {
  /** The queue had a job of this id already, and dropped this one: its result is that of the other. */
  readonly isDuplicate: boolean;
}

/** Jobs whose results one client waits for at once: each is a subscription, of which a connection has 4,096. */
export const JOB_RESULTS_AWAITED_MAX = 2_048;
const ANSWER_MS = 10_000;
/** A result that is stored while a server of the cluster is lost may not be heard: it is looked for now and then. */
const LOOK_AGAIN_MS = 10_000;
const WAIT_MS = 604_800_000;

export class JobClient {
  readonly #bus: ClientBus;
  readonly #inbox: ReplyInbox;
  readonly #app: string;
  readonly #waiting = new Set<(error: TuttiError) => void>();

  constructor(bus: ClientBus, inbox: ReplyInbox, app: string) {
    this.#bus = bus;
    this.#inbox = inbox;
    this.#app = app;
  }

  /** @throws {TuttiError} as a rejection */
  async submit(
    model: string,
    inputs: Readonly<Record<string, TensorInput>>,
    options: SubmitOptions = {},
  ): Promise<SubmittedJob> {
    const { form = "binary", deadline, outputs, version, size } = options;
    const id = options.id ?? crypto.randomUUID();
    const app = options.app ?? this.#app;
    checkPlace({ app, model, id });
    if (deadline !== undefined) jobDeadline(deadline);
    const tensors = inputsToWire(inputs);
    const payload = encodeRequest(form, { inputs: tensors, ...(outputs !== undefined && { outputs }) });
    const headers = {
      [HEADER.contentType]: CONTENT[form],
      [JOB_HEADER.id]: id,
      ...(deadline !== undefined && { [HEADER.slo]: deadline }),
      ...(outputs !== undefined && { [HEADER.outputs]: outputs.join(",") }),
      ...(version !== undefined && { [HEADER.version]: version }),
      ...(size !== undefined && { [HEADER.size]: String(size) }),
    };
    if (payload.byteLength > this.#bus.payloadMax) {
      const text = `the job has ${payload.byteLength} bytes; the server takes at most ${this.#bus.payloadMax}`;
      throw new TuttiError("TUTTI_TOO_LARGE", text);
    }
    const { duplicate, revision } = readReceipt(await this.#ask(jobSubject(model, app), payload, headers), model);
    return { ...this.#jobAt({ app, model, id }, revision), isDuplicate: duplicate };
  }

  /** A job that was submitted before, perhaps by another process. */
  job(model: string, id: string, { app = this.#app }: { readonly app?: string | undefined } = {}): Job {
    checkPlace({ app, model, id });
    return this.#jobAt({ app, model, id });
  }

  /** @param since - results with lower numbers are of an earlier run */
  #jobAt(place: Place, since = 0): Job {
    return {
      id: place.id,
      result: async (options = {}) => valueOf(await this.#result({ ...place, since }, options)),
      peek: async () => {
        const found = await this.#read({ ...place, since });
        return found === undefined || found instanceof TuttiError ? found : valueOf(found);
      },
    };
  }

  close(): void {
    const error = new TuttiError("TUTTI_CANCELLED", "the client was closed; its jobs go on");
    for (const end of [...this.#waiting]) end(error);
  }

  async #read({ app, model, id, since }: PlaceSince): Promise<TensorAnswer | TuttiError | undefined> {
    const answer = await this.#ask(jobResultsSubject(model, app), new TextEncoder().encode(id), undefined);
    const revision = answer.header(JOB_HEADER.revision);
    // A result may be an error too; only results have numbers.
    if (revision !== undefined) return Number(revision) < since ? undefined : readAnswer(answer, model);
    const failure = readFailure(answer, model) ?? new TuttiError("TUTTI_INTERNAL", "a result without its number");
    if (failure.code === "TUTTI_NOT_FOUND") return undefined;
    throw failure;
  }

  /** Listens first and looks then, so that a result can't be stored in between unseen. */
  #result(place: PlaceSince, { withinMs = WAIT_MS }: ResultOptions): Promise<TensorAnswer> {
    const { app, model, id } = place;
    if (this.#waiting.size >= JOB_RESULTS_AWAITED_MAX) {
      const text = `this client waits for ${JOB_RESULTS_AWAITED_MAX} results already`;
      return Promise.reject(new TuttiError("TUTTI_OVERLOADED", text));
    }
    return new Promise((resolve, reject) => {
      const settle = (result: TensorAnswer | TuttiError): void => {
        if (!this.#waiting.delete(settle)) return;
        subscription.stop();
        clearInterval(looking);
        clearTimeout(timer);
        if (result instanceof TuttiError) reject(result);
        else resolve(result);
      };
      this.#waiting.add(settle);
      const look = (): void =>
        void this.#read(place).then(
          (found) => found !== undefined && settle(found),
          (error: TuttiError) => error.retryable || settle(error),
        );
      const subscription = this.#bus.subscribe(resultSubject(app, model, id), (delivery) => {
        if (!isRemoved(delivery)) settle(readAnswer(delivery, model));
      });
      const looking = setInterval(look, LOOK_AGAIN_MS);
      const timer = setTimeout(() => {
        settle(new TuttiError("TUTTI_DEADLINE_EXCEEDED", `job ${id} has no result after ${withinMs} ms; it goes on`));
      }, withinMs);
      look();
    });
  }

  #ask(subject: string, payload: Uint8Array, headers: Readonly<Record<string, string>> | undefined): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const fail = (text: string): void => {
        this.#inbox.forget(token);
        reject(new TuttiError("TUTTI_UNAVAILABLE", text));
      };
      const token = this.#inbox.expect((delivery) => {
        clearTimeout(timer);
        if (delivery.header("Status") === "503")
          return fail("there is no job runner: every node has one, or start one with `tutti run jobs`");
        resolve(ownedAnswer(delivery));
      });
      const timer = setTimeout(() => fail("no job runner answered"), ANSWER_MS);
      const reply = this.#inbox.subjectOf(token);
      if (this.#bus.publish(subject, payload, { reply, ...(headers !== undefined && { headers }) })) return;
      clearTimeout(timer);
      fail("not connected to a NATS server at the moment");
    });
  }
}

interface Place {
  readonly app: string;
  readonly model: string;
  readonly id: string;
}

interface PlaceSince extends Place {
  readonly since: number;
}

/** @throws {TuttiError} INVALID_INPUT for names that can't stand in subjects */
function checkPlace({ app, model, id }: Place): void {
  if (!isModelName(model)) throw invalid(`"${model}" is no name of a model: ${NAME_RULE}`);
  if (!isName(app)) throw invalid(`"${app}" is no name of an application: ${NAME_RULE}`);
  if (!isJobId(id)) throw invalid(`"${id}" is no id of a job: up to 64 letters, digits, "-" and "_"`);
}

type Answer = Pick<Delivery, "header" | "payload" | "subject" | "reply">;

/** A delivery that may be kept beyond its turn. */
function ownedAnswer(delivery: Delivery): Answer {
  const { subject, reply } = delivery;
  return { subject, reply, payload: new Uint8Array(delivery.payload), header: (name) => delivery.header(name) };
}

/** The bucket's mark of a result that was removed. */
const isRemoved = (answer: Answer): boolean => answer.header("KV-Operation") !== undefined;

/** @throws {TuttiError} why the job was not taken */
function readReceipt(answer: Answer, model: string): Pick<JobReceipt, "duplicate" | "revision"> {
  const failure = readFailure(answer, model);
  if (failure !== undefined) throw failure;
  try {
    const { duplicate, revision } = JSON.parse(new TextDecoder().decode(answer.payload)) as Partial<JobReceipt>;
    return { duplicate: duplicate === true, ...(typeof revision === "number" && { revision }) };
  } catch (cause) {
    throw new TuttiError("TUTTI_INTERNAL", "the receipt can't be read", { cause });
  }
}

const valueOf = ({ outputs, ...answer }: TensorAnswer): InferResult => ({
  ...answer,
  outputs: Object.fromEntries(outputs.map((output) => [output.name, tensorValue(output)])),
});

const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
