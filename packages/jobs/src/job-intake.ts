import type { Bus, Delivery, DeliverySubscription } from "@tutti/ports/bus";
import type { JobQueue, KeptResult, StoredResult } from "@tutti/ports/jobs";
import {
  HEADER,
  HEADER_BYTES_MAX,
  JOBS_QUEUE,
  JOBS_SUBJECT,
  JOB_HEADER,
  JOB_RESULTS_SUBJECT,
  type JobReceipt,
  REQUEST_BYTES_MAX,
  type ReplyScope,
  TuttiError,
  errorBody,
  givenJobId,
  isJobId,
  isModelName,
  isName,
  jobBytesMax,
  jobDeadline,
  mayReply,
  queuedJobSubject,
  resultSubject,
} from "@tutti/protocol";
import type { AppShares } from "./app-shares.ts";
import { REQUEST_HEADERS } from "./job-terms.ts";
import { headerBytes, messageBytes } from "./message-bytes.ts";

/** Jobs that one intake is putting into the queue; beyond, OVERLOADED. */
const INTAKE_JOBS_MAX = 1_024;
/** Their bytes; beyond, OVERLOADED. */
const INTAKE_BYTES_MAX = 268_435_456;
/** Results that one intake reads at once, each of up to 8 MB. */
const READS_MAX = 32;
/** Reads that wait for these, a name each; beyond, OVERLOADED. */
const WAITING_READS_MAX = 4_096;
const AGAIN_MS = 200;
/** Pause before the second look for a failure that its publisher may have heard of before it was stored. */
const LOOK_AGAIN_MS = 200;

export interface JobIntakePorts {
  readonly bus: Bus;
  readonly queue: Pick<JobQueue, "enqueue" | "result" | "forgetResult">;
  readonly shares: AppShares;
  /** The id of a job that has none. */
  readonly randomId: () => string;
}

interface Place {
  readonly model: string;
  readonly app: string;
  readonly id: string;
}
interface TakenJob extends Place, StoredResult {}

/**
 * The publishers' side of the queue: checks jobs, puts them into the queue and answers with receipts; answers reads of
 * results. JetStream itself would send its receipt to any reply subject that a publisher names.
 *
 *   JOB-3. A message whose reply subject is not below its application's inbox changes nothing.
 *   JOB-4. A receipt is sent only after the queue has the job on disk.
 *   JOB-5. A job whose id has failed runs again: its message has another id, and its old failure is removed before the
 *          receipt is sent.
 */
export class JobIntake {
  readonly #ports: JobIntakePorts;
  readonly #replyScope: ReplyScope;
  readonly #subscriptions: DeliverySubscription[] = [];
  readonly #waitingReads: (() => void)[] = [];
  /** Called when nothing is under way any more. */
  #onIdle: (() => void) | undefined;
  #jobs = 0;
  #bytes = 0;
  #reads = 0;
  readonly figures = { taken: 0, refused: 0, undeliverable: 0 };

  constructor(ports: JobIntakePorts, replyScope: ReplyScope) {
    this.#ports = ports;
    this.#replyScope = replyScope;
  }

  open(): void {
    const { bus } = this.#ports;
    this.#subscriptions.push(
      bus.subscribe(JOBS_SUBJECT, (delivery) => this.#onJob(delivery), { queue: JOBS_QUEUE }),
      bus.subscribe(JOB_RESULTS_SUBJECT, (delivery) => this.#onRead(delivery), { queue: JOBS_QUEUE }),
    );
  }

  /** Takes nothing new, and calls `done` when the last receipt is sent. */
  drain(done: () => void): void {
    let left = this.#subscriptions.length;
    if (left === 0) return done();
    for (const subscription of this.#subscriptions)
      subscription.drain(() => {
        if (--left > 0) return;
        this.#onIdle = done;
        this.#ended();
      });
  }

  #onJob(delivery: Delivery): void {
    const { model, app } = namesOf(delivery);
    const { reply, payload } = delivery;
    if (!this.#mayAnswer(app, reply)) return;
    const bytes = payload.byteLength;
    try {
      const job = this.#read(delivery, { model, app });
      if (this.#jobs >= INTAKE_JOBS_MAX || this.#bytes + bytes > INTAKE_BYTES_MAX) throw busy();
      const { shares } = this.#ports;
      const size = messageBytes(job);
      shares.check(job, size);
      shares.addJob(job, size);
      this.#jobs++;
      this.#bytes += bytes;
      void this.#take(job)
        .then(
          (receipt) => {
            this.figures.taken++;
            this.#answer(reply, { headers: {}, payload: new TextEncoder().encode(JSON.stringify(receipt)) });
          },
          (error: unknown) => this.#refuse(reply, error),
        )
        .finally(() => {
          shares.jobArrived(job, size); // or was a duplicate, or not taken: it counts until the next look
          this.#jobs--;
          this.#bytes -= bytes;
          this.#ended();
        });
    } catch (error) {
      this.#refuse(reply, error);
    }
  }

  /** @throws {TuttiError} why the message is no job */
  #read(delivery: Delivery, { model, app }: Omit<Place, "id">): TakenJob {
    checkNames(delivery.subject, { model, app });
    if (delivery.headersUnreadable === true)
      throw invalid("the message's headers can't be read: each is a line `name: value`");
    const header = (name: string): string | undefined => delivery.header(name);
    const id = givenJobId(header) ?? this.#ports.randomId();
    checkId(id);
    for (const name of [HEADER.deadline, HEADER.costs])
      if (header(name) !== undefined) throw invalid(`a job has no ${name}: its deadline is ${HEADER.slo}, such as 2h`);
    jobDeadline(header(HEADER.slo));
    const kept = [...REQUEST_HEADERS, HEADER.slo].flatMap((name) => {
      const value = header(name);
      return value === undefined ? [] : [[name, value] as const];
    });
    const headers = { ...Object.fromEntries(kept), [JOB_HEADER.id]: id };
    checkSize(delivery.payload.byteLength, headerBytes(headers), jobBytesMax(this.#ports.bus.payloadMax));
    return { model, app, id, headers, payload: new Uint8Array(delivery.payload) };
  }

  async #take(job: TakenJob): Promise<JobReceipt> {
    const { queue } = this.#ports;
    const { model, app, id, headers, payload } = job;
    const place = resultSubject(app, model, id);
    const enqueue = (): Promise<{ readonly isDuplicate: boolean }> =>
      queue.enqueue(queuedJobSubject(model, app, messageBytes(job)), { headers, payload }, messageIdOf(job, failure));
    let failure = await this.#failureAt(place);
    let { isDuplicate } = await enqueue();
    if (isDuplicate && failure === undefined) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
      failure = await this.#failureAt(place);
      if (failure !== undefined) ({ isDuplicate } = await enqueue());
    }
    const revision = failure === undefined ? undefined : await queue.forgetResult(place, failure.revision);
    return { id, duplicate: isDuplicate, ...(revision !== undefined && { revision }) };
  }

  async #failureAt(place: string): Promise<KeptResult | undefined> {
    const result = await this.#ports.queue.result(place);
    return result !== undefined && HEADER.errorCode in result.headers ? result : undefined;
  }

  #onRead(delivery: Delivery): void {
    const { model, app } = namesOf(delivery);
    const { reply } = delivery;
    if (reply === undefined || !this.#mayAnswer(app, reply)) return;
    try {
      checkNames(delivery.subject, { model, app });
      const id = new TextDecoder().decode(delivery.payload.subarray(0, ID_BYTES));
      checkId(id);
      if (this.#waitingReads.length >= WAITING_READS_MAX) throw busy();
      this.#waitingReads.push(() => void this.#readResult({ model, app, id }, reply));
      this.#nextReads();
    } catch (error) {
      this.#refuse(reply, error);
    }
  }

  #nextReads(): void {
    while (this.#reads < READS_MAX && this.#waitingReads.length > 0) {
      this.#reads++;
      this.#waitingReads.shift()!();
    }
  }

  async #readResult({ model, app, id }: Place, reply: string): Promise<void> {
    try {
      const result = await this.#ports.queue.result(resultSubject(app, model, id));
      if (result === undefined)
        throw new TuttiError("TUTTI_NOT_FOUND", `job ${id} of ${model} has no result: not yet, or not any more`);
      const { headers, payload, revision } = result;
      this.#answer(reply, { headers: { ...headers, [JOB_HEADER.revision]: String(revision) }, payload });
    } catch (error) {
      this.#refuse(reply, error);
    }
    this.#reads--;
    this.#nextReads();
    this.#ended();
  }

  /** Without a reply subject nobody wants an answer. */
  #mayAnswer(app: string, reply: string | undefined): boolean {
    if (reply === undefined || mayReply(this.#replyScope, app, reply)) return true;
    this.figures.undeliverable++;
    return false;
  }

  #answer(reply: string | undefined, { headers, payload }: StoredResult): void {
    if (reply === undefined || this.#ports.bus.publish(reply, payload, { headers })) return;
    this.figures.undeliverable++;
  }

  #refuse(reply: string | undefined, cause: unknown): void {
    this.figures.refused++;
    const error =
      cause instanceof TuttiError
        ? cause
        : new TuttiError("TUTTI_UNAVAILABLE", `the queue of jobs: ${(cause as Error).message}`, { cause });
    const headers = {
      [HEADER.errorCode]: String(error.status),
      [HEADER.error]: error.message.replaceAll(/[\r\n]+/g, " "),
    };
    this.#answer(reply, { headers, payload: new TextEncoder().encode(JSON.stringify(errorBody(error))) });
  }

  #ended(): void {
    if (this.#onIdle === undefined || this.#jobs > 0 || this.#reads > 0 || this.#waitingReads.length > 0) return;
    const done = this.#onIdle;
    this.#onIdle = undefined;
    done();
  }
}

/** A longer payload is no id either. */
const ID_BYTES = 128;

function namesOf({ subject }: Delivery): { readonly model: string; readonly app: string } {
  const [, model = "", app = ""] = subject.split(".");
  return { model, app };
}

/** The queue's id of the message. A job that failed has another one, or its second run would be a duplicate. */
const messageIdOf = ({ app, model, id }: Place, failure: KeptResult | undefined): string =>
  `${app}.${model}.${id}${failure === undefined ? "" : `.${failure.revision}`}`;

function checkNames(subject: string, { model, app }: Omit<Place, "id">): void {
  if (!isModelName(model) || !isName(app))
    throw invalid(`${subject.slice(0, 160)}: names are up to 64 letters, digits, "-" and "_"`);
}

function checkId(id: string): void {
  if (!isJobId(id)) throw invalid(`"${id.slice(0, 64)}" is no id of a job: up to 64 letters, digits, "-" and "_"`);
}

function checkSize(body: number, headers: number, max: number): void {
  const text =
    body > REQUEST_BYTES_MAX
      ? `a job's body has at most ${REQUEST_BYTES_MAX} bytes, not ${body} (REQUEST_BYTES_MAX)`
      : headers > HEADER_BYTES_MAX
        ? `a job's headers have at most ${HEADER_BYTES_MAX} bytes, not ${headers} (HEADER_BYTES_MAX)`
        : body + headers > max
          ? `a job has at most ${max} bytes on this server, not ${body + headers}`
          : undefined;
  if (text !== undefined) throw new TuttiError("TUTTI_TOO_LARGE", text);
}

const busy = (): TuttiError =>
  new TuttiError("TUTTI_OVERLOADED", "this job runner takes no more at the moment", { retryAfterMs: AGAIN_MS });
const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
