import {
  type Consumer,
  type JetStreamClient,
  type JetStreamManager,
  JetStreamApiError,
  type JsMsg,
  type StreamConfig,
  type StreamState,
  jetstream,
} from "@nats-io/jetstream";
import { type MsgHdrs, type NatsConnection as Connection, headers as newHeaders } from "@nats-io/transport-node";
import type {
  DeadJob,
  DeadUse,
  JobAdministration,
  JobQueue,
  KeptResult,
  ModelBacklog,
  QueueUse,
  QueuedJob,
  StoredResult,
  StreamUse,
} from "@tutti/ports/jobs";
import {
  DEAD_JOBS_STREAM,
  HEADER,
  JOBS_STREAM,
  JOB_USES_STREAM,
  JOB_USES_SUBJECT,
  QUEUED_JOBS_SUBJECT,
  RESULTS_STREAM,
  DEAD_JOBS_SUBJECT,
  TuttiError,
  jobUseSubject,
  sizeClassBytes,
} from "@tutti/protocol";
import { onceSettled } from "../settling.ts";
import { consumerName, jobConsumer, jobStreams } from "./job-streams.ts";

const TIMEOUT_MS = 5_000;
const NO_STREAM = 10059;
const NO_CONSUMER = 10014;
const NO_MESSAGE = 10037;
/** "Stream name already in use with a different configuration": an operator's own settings stay. */
const IN_USE = 10058;
/** A newer message of this subject is there than the one that was expected. */
const WRONG_LAST_SEQUENCE = 10071;
const FULL_AGAIN_MS = 10_000;

/** The queue of background jobs on JetStream: see job-streams.ts for what the streams keep. */
export class NatsJobQueue implements JobQueue, JobAdministration {
  readonly #js: JetStreamClient;
  readonly #replicas: number;
  readonly #consumers = new Map<string, Consumer>();
  #manager: Promise<JetStreamManager> | undefined;

  constructor(connection: Connection, replicas: number) {
    // Skip the check of the account, which needs one more permission.
    this.#js = jetstream(connection, { checkAPI: false, timeout: TIMEOUT_MS });
    this.#replicas = replicas;
  }

  async open(): Promise<void> {
    const manager = await this.#manage();
    for (const stream of jobStreams(this.#replicas)) {
      await onceSettled(
        async () => {
          try {
            const { config } = await manager.streams.info(stream.name);
            checkSubjects(stream.name, { found: config.subjects, wanted: stream.subjects });
          } catch (error) {
            if (!isApiError(error, NO_STREAM)) throw error;
            await manager.streams.add(stream).catch((refused: unknown) => {
              if (!isApiError(refused, IN_USE)) throw refused;
            });
          }
        },
        () => true,
      );
    }
  }

  async queued(): Promise<QueueUse> {
    const counted = await this.#count(JOBS_STREAM, QUEUED_JOBS_SUBJECT);
    const jobs = new Map<string, number>();
    const jobsByApp = new Map<string, Map<string, number>>();
    const bytesByApp = new Map<string, number>();
    for (const [[, model, app, size], count] of counted.subjects) {
      const byApp = jobsByApp.get(model!) ?? new Map<string, number>();
      jobsByApp.set(model!, byApp);
      add(byApp, app!, count);
      add(jobs, model!, count);
      add(bytesByApp, app!, count * sizeClassBytes(size!));
    }
    return { jobs, jobsByApp, bytesByApp, bytesFree: counted.bytesFree };
  }

  async dead(): Promise<DeadUse> {
    const counted = await this.#count(DEAD_JOBS_STREAM, DEAD_JOBS_SUBJECT);
    const letters = new Map<string, Map<string, number>>();
    const bytesByApp = new Map<string, number>();
    for (const [[, model, app, code, size], count] of counted.subjects) {
      const byCode = letters.get(model!) ?? new Map<string, number>();
      letters.set(model!, byCode);
      add(byCode, code!, count);
      add(bytesByApp, app!, count * sizeClassBytes(size!));
    }
    return { letters, bytesByApp, bytesFree: counted.bytesFree };
  }

  async results(): Promise<StreamUse> {
    const manager = await this.#manage();
    const [{ config, state }, counted] = [
      await manager.streams.info(RESULTS_STREAM),
      await this.#count(JOB_USES_STREAM, JOB_USES_SUBJECT),
    ];
    const bytesByApp = new Map<string, number>();
    for (const [[, app, size], count] of counted.subjects) add(bytesByApp, app!, count * sizeClassBytes(size!));
    return { bytesByApp, bytesFree: bytesFree(config, state) };
  }

  async noteResults(app: string, bytes: number): Promise<void> {
    await this.#js.publish(jobUseSubject(app, bytes));
  }

  async backlogs(): Promise<ReadonlyMap<string, ModelBacklog>> {
    const manager = await this.#manage();
    const backlogs = new Map<string, ModelBacklog>();
    for (const [model, queued] of (await this.queued()).jobs) {
      const consumer = await ifThere(manager.consumers.info(JOBS_STREAM, consumerName(model)));
      backlogs.set(model, { queued, inFlight: consumer?.num_ack_pending ?? 0 });
    }
    return backlogs;
  }

  async allow(model: string, inFlightMax: number): Promise<void> {
    const manager = await this.#manage();
    const known = await ifThere(manager.consumers.info(JOBS_STREAM, consumerName(model)));
    if (known === undefined) await manager.consumers.add(JOBS_STREAM, jobConsumer(model, inFlightMax));
    else if (known.config.max_ack_pending !== inFlightMax)
      await manager.consumers.update(JOBS_STREAM, consumerName(model), { max_ack_pending: inFlightMax });
  }

  async fetch(
    model: string,
    { count, waitMs }: { readonly count: number; readonly waitMs: number },
    onJob: (job: QueuedJob) => void,
  ): Promise<number> {
    let fetched = 0;
    try {
      let consumer = this.#consumers.get(model);
      if (consumer === undefined) {
        consumer = await this.#js.consumers.get(JOBS_STREAM, consumerName(model));
        this.#consumers.set(model, consumer);
      }
      const messages = await consumer.fetch({ max_messages: count, expires: waitMs });
      // A fetch whose end the server could not say, because it died meanwhile, must not be the last one.
      const guard = setTimeout(() => messages.stop(new Error("the queue did not end a fetch")), waitMs + TIMEOUT_MS);
      try {
        for await (const message of messages) {
          fetched++;
          onJob(new NatsJob(message));
        }
      } finally {
        clearTimeout(guard);
      }
    } catch (error) {
      this.#consumers.delete(model);
      throw error;
    }
    return fetched;
  }

  async enqueue(
    subject: string,
    { headers, payload }: StoredResult,
    messageId: string,
  ): Promise<{ readonly isDuplicate: boolean }> {
    try {
      const message = { headers: headersOf({ ...headers, [HEADER.messageId]: messageId }) };
      return { isDuplicate: (await this.#js.publish(subject, payload, message)).duplicate };
    } catch (cause) {
      throw notTaken(cause);
    }
  }

  async result(subject: string): Promise<KeptResult | undefined> {
    const message = await (await this.#manage()).direct.getMessage(RESULTS_STREAM, { last_by_subj: subject });
    if (message === null || message.header.get("KV-Operation") !== "") return undefined;
    return { headers: recordOf(message.header), payload: message.data, revision: message.seq };
  }

  async storeResult(subject: string, { headers, payload }: StoredResult): Promise<void> {
    await this.#js.publish(subject, payload, { headers: headersOf(headers) });
  }

  async forgetResult(subject: string, revision: number): Promise<number | undefined> {
    const removal = { headers: headersOf({ "KV-Operation": "DEL" }), expect: { lastSubjectSequence: revision } };
    try {
      return (await this.#js.publish(subject, new Uint8Array(0), removal)).seq;
    } catch (error) {
      if (isApiError(error, WRONG_LAST_SEQUENCE)) return undefined;
      throw error;
    }
  }

  async bury(subject: string, { headers, payload }: StoredResult, letterId: string): Promise<void> {
    await this.#js.publish(subject, payload, { headers: headersOf({ ...headers, [HEADER.messageId]: letterId }) });
  }

  async *deadJobs(): AsyncGenerator<DeadJob> {
    const manager = await this.#manage();
    const { last_seq: last } = (await manager.streams.info(DEAD_JOBS_STREAM)).state;
    for (let seq = 1; seq <= last; seq++) {
      const next = { seq, next_by_subj: DEAD_JOBS_SUBJECT };
      const message = await ifThere(manager.streams.getMessage(DEAD_JOBS_STREAM, next));
      if (message === undefined || message === null || message.seq > last) return;
      const { subject, data, header, time } = message;
      seq = message.seq;
      yield { subject, payload: data, headers: recordOf(header), seq, diedAtMs: time.getTime() };
    }
  }

  async removeDead(seq: number): Promise<void> {
    await (await this.#manage()).streams.deleteMessage(DEAD_JOBS_STREAM, seq, false);
  }

  /** Messages by the tokens of their subjects. */
  async #count(stream: string, subjects: string): Promise<Counted> {
    const manager = await this.#manage();
    const { config, state } = await manager.streams.info(stream, { subjects_filter: subjects });
    return {
      subjects: Object.entries(state.subjects ?? {}).map(([subject, count]) => [subject.split("."), count] as const),
      bytesFree: bytesFree(config, state),
    };
  }

  #manage(): Promise<JetStreamManager> {
    this.#manager ??= this.#js.jetstreamManager(false);
    this.#manager.catch(() => (this.#manager = undefined));
    return this.#manager;
  }
}

interface Counted {
  readonly subjects: readonly (readonly [tokens: readonly string[], count: number])[];
  readonly bytesFree: number;
}

/** An operator may have removed the bound. */
const bytesFree = ({ max_bytes: max }: StreamConfig, { bytes }: StreamState): number =>
  max > 0 ? Math.max(0, max - bytes) : Infinity;

const add = (sums: Map<string, number>, name: string, more: number): void =>
  void sums.set(name, (sums.get(name) ?? 0) + more);

class NatsJob implements QueuedJob {
  readonly #message: JsMsg;
  readonly headers: Readonly<Record<string, string>>;

  constructor(message: JsMsg) {
    this.#message = message;
    this.headers = readHeaders(message);
  }

  get subject(): string {
    return this.#message.subject;
  }
  get payload(): Uint8Array {
    return this.#message.data;
  }
  get seq(): number {
    return this.#message.seq;
  }
  get submittedAtMs(): number {
    return Number(this.#message.timestampNanos / 1_000_000n);
  }
  get tries(): number {
    return this.#message.info.deliveryCount;
  }

  async done(): Promise<void> {
    await this.#message.ackAck({ timeout: TIMEOUT_MS });
  }
  retry(delayMs: number): void {
    this.#message.nak(Math.max(1, Math.round(delayMs)));
  }
  extend(): void {
    this.#message.working();
  }
}

/** Headers that break the format count as none: the library throws for those that it would not write itself. */
function readHeaders(message: JsMsg): Readonly<Record<string, string>> {
  try {
    return recordOf(message.headers);
  } catch {
    return {};
  }
}

function recordOf(headers: MsgHdrs | undefined): Readonly<Record<string, string>> {
  const record = new Map<string, string>();
  for (const [key, values] of headers ?? []) if (values[0] !== undefined) record.set(key, values[0]);
  return Object.fromEntries(record);
}

function headersOf(record: Readonly<Record<string, string>>): MsgHdrs {
  const headers = newHeaders();
  for (const [key, value] of Object.entries(record)) headers.set(key, value);
  return headers;
}

/** A queue that listens to publishers itself would answer them wherever they say, unchecked. */
function checkSubjects(
  name: string,
  { found, wanted }: { readonly found: readonly string[]; readonly wanted: readonly string[] | undefined },
): void {
  if (found.join() === wanted?.join()) return;
  throw new Error(
    `stream ${name} is for ${found.join()}, not ${wanted?.join()}: remove it with \`nats stream rm ${name}\``,
  );
}

function notTaken(cause: unknown): TuttiError {
  const text = cause instanceof Error ? cause.message : String(cause);
  if (/maximum bytes|maximum messages|resources/.test(text))
    return new TuttiError("TUTTI_OVERLOADED", `the queue of jobs is full: ${text}`, {
      cause,
      retryAfterMs: FULL_AGAIN_MS,
    });
  return new TuttiError("TUTTI_UNAVAILABLE", `the queue of jobs did not take it: ${text}`, { cause });
}

const isApiError = (error: unknown, ...codes: readonly number[]): boolean =>
  error instanceof JetStreamApiError && codes.includes(error.code);

/** The answer, or undefined where the server has no such consumer or message. */
async function ifThere<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (isApiError(error, NO_CONSUMER, NO_MESSAGE)) return undefined;
    throw error;
  }
}
