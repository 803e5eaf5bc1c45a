/**
 * Events that actors report with their figures, for people and for the simulator. They are batches that ended, requests
 * that arrived, and requests that were refused. They ride on a report that is sent anyway, so nobody needs to listen to
 * control messages, which carry tokens. Numbers lie flat in one list, times as µs before the report.
 */
import type { GpuId, Instant, Micros, ThreadId } from "@tutti/units";
import { GPUS_MAX, before, between, instant, micros } from "@tutti/units";
import type { ErrorCode } from "../errors.ts";
import { ERROR_STATUS } from "../errors.ts";
import { BATCH_SIZE_MAX, NAME_LENGTH_MAX, REQUEST_ID_LENGTH_MAX, SLO_US_MAX } from "../limits.ts";
import { type Static, schema } from "../schema.ts";

/** Most batches in one report; others that ended are only counted. */
export const REPORTED_BATCHES_MAX = 512;
/** Most arrivals in one report; if there were more, each reported one stands for several. */
export const REPORTED_ARRIVALS_MAX = 2_048;
/** Most streams (model, application, SLO) whose arrivals one report lists; others are counted. */
export const REPORTED_STREAMS_MAX = 256;
/** Most refusals in one report, the last ones; figures count them all. */
export const REPORTED_REFUSALS_MAX = 16;
/** Most characters of a refusal's text. */
export const REPORTED_TEXT_LENGTH_MAX = 240;

const BATCH_WIDTH = 8;
const ARRIVAL_WIDTH = 2;
/** Longest reported age, µs; it keeps sums of times whole numbers. */
const AGO_MAX_US = 3_600e6;

const rowsOf = (width: number, most: number) =>
  schema.also(schema.list(schema.count, width * most), ({ length }) => length % width === 0);

/** A batch that ran. */
export interface BatchReport {
  readonly thread: ThreadId;
  readonly gpu: GpuId;
  readonly size: number;
  /** Requests of the batch that were answered with an error. */
  readonly failed: number;
  /**
   * Time at which the first of its requests reached its ingress. From then on it waited, for others or for an
   * accelerator.
   */
  readonly firstAt: Instant;
  readonly grantedAt: Instant;
  readonly startedAt: Instant;
  readonly finishedAt: Instant;
}

/** Batches that ended, from a batcher. */
export const BatchReports = schema.record({
  /** Batches that ended and are not listed. */
  left: schema.count,
  /** Eight numbers for each batch: thread, gpu, size, failed, and its four times. */
  rows: rowsOf(BATCH_WIDTH, REPORTED_BATCHES_MAX),
});
export type BatchReports = Static<typeof BatchReports>;

const StreamArrivals = schema.record({
  model: schema.modelName,
  app: schema.name,
  slo: schema.whole<Micros>(0, SLO_US_MAX),
});
export type StreamArrivals = Static<typeof StreamArrivals>;

/** Arrivals at an ingress: all requests for a model, including those refused at admission. */
export const ArrivalReports = schema.record({
  /** Number of arrivals that each row stands for. */
  every: schema.whole(1, Number.MAX_SAFE_INTEGER),
  /** Arrivals of streams beyond those that are listed. */
  left: schema.count,
  streams: schema.list(StreamArrivals, REPORTED_STREAMS_MAX),
  /** Two numbers for each arrival: the stream's index, and its time. */
  rows: rowsOf(ARRIVAL_WIDTH, REPORTED_ARRIVALS_MAX),
});
export type ArrivalReports = Static<typeof ArrivalReports>;

/** A request that an ingress refused. */
const RefusalReport = schema.record({
  at: schema.moment,
  /** Name of the model; "": no known model. */
  model: schema.either(schema.oneOf([""]), schema.modelName),
  code: schema.oneOf(Object.keys(ERROR_STATUS) as ErrorCode[]),
  /** The text that the publisher gets, without what may quote its input. */
  text: schema.text(REPORTED_TEXT_LENGTH_MAX),
  /** Left out by earlier releases, as what follows. */
  app: schema.optional(schema.text(NAME_LENGTH_MAX)),
  /** Its name for `tutti refusals --request`: the publisher's id or trace, else its number at its ingress. */
  id: schema.optional(schema.text(REQUEST_ID_LENGTH_MAX)),
  /** Left out: it has none. */
  traceId: schema.optional(schema.text(REQUEST_ID_LENGTH_MAX)),
});
export type RefusalReport = Static<typeof RefusalReport>;
export const RefusalReports = schema.list(RefusalReport, REPORTED_REFUSALS_MAX);

/** @param at - time of the report */
export function batchRow(batch: BatchReport, at: Instant): number[] {
  const { thread, gpu, size, failed, firstAt, grantedAt, startedAt, finishedAt } = batch;
  const ago = (time: Instant): number => Math.min(AGO_MAX_US, between(time, at));
  return [thread, gpu, size, failed, ago(firstAt), ago(grantedAt), ago(startedAt), ago(finishedAt)];
}

/** @param at - time of the report. @returns undefined for an invalid value (T8) */
export function readBatches(value: unknown, at: Instant): { batches: BatchReport[]; left: number } | undefined {
  if (!BatchReports(value)) return undefined;
  const { left, rows } = value;
  const batches: BatchReport[] = [];
  for (let i = 0; i < rows.length; i += BATCH_WIDTH) {
    const [thread = 0, gpu = 0, size = 0, failed = 0, first = 0, granted = 0, started = 0, finished = 0] = rows.slice(
      i,
      i + BATCH_WIDTH,
    );
    const isSound = thread < 2 ** 32 && gpu < GPUS_MAX && size > 0 && size <= BATCH_SIZE_MAX && failed <= size;
    if (!isSound || Math.max(first, granted, started, finished) > AGO_MAX_US) return undefined;
    batches.push({
      thread: thread as ThreadId,
      gpu: gpu as GpuId,
      size,
      failed,
      firstAt: moment(at, first),
      grantedAt: moment(at, granted),
      startedAt: moment(at, started),
      finishedAt: moment(at, finished),
    });
  }
  return { batches, left };
}

/** @param at - time of the report. @returns undefined for an invalid value (T8) */
export function readArrivals(
  value: unknown,
  at: Instant,
):
  | { every: number; left: number; streams: readonly StreamArrivals[]; arrivals: { stream: number; at: Instant }[] }
  | undefined {
  if (!ArrivalReports(value)) return undefined;
  const { every, left, streams, rows } = value;
  const arrivals: { stream: number; at: Instant }[] = [];
  for (let i = 0; i < rows.length; i += ARRIVAL_WIDTH) {
    const [stream = 0, ago = 0] = rows.slice(i, i + ARRIVAL_WIDTH);
    if (stream >= streams.length || ago > AGO_MAX_US) return undefined;
    arrivals.push({ stream, at: moment(at, ago) });
  }
  return { every, left, streams, arrivals };
}

/**
 * Reads refusals, without those whose code is a newer release's.
 *
 * @returns undefined for an invalid value (T8)
 */
export function readRefusals(value: unknown): readonly RefusalReport[] | undefined {
  const known = Array.isArray(value) ? value.filter((one: unknown) => !hasNewCode(one)) : value;
  return RefusalReports(known) ? known : undefined;
}

const hasNewCode = (refusal: unknown): boolean =>
  typeof refusal === "object" &&
  refusal !== null &&
  "code" in refusal &&
  /^TUTTI_[A-Z_]{1,40}$/.test(String(refusal.code)) &&
  !Object.hasOwn(ERROR_STATUS, String(refusal.code));

const moment = (at: Instant, ago: number): Instant => (ago >= at ? instant(0) : before(at, micros(ago)));
