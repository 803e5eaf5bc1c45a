/**
 * Events that actors report with their figures, for people and for the simulator. They are batches that ended, requests
 * that arrived, and requests that were refused. They ride on a report that is sent anyway, so nobody needs to listen to
 * control messages, which carry tokens. Numbers lie flat in one list, times as µs before the report.
 */
import type { GpuId, Instant, Micros, ThreadId } from "@tutti/units";
import { GPUS_MAX, before, between, instant, micros } from "@tutti/units";
import type { ErrorCode } from "./errors.ts";
import { ERROR_STATUS } from "./errors.ts";
import { BATCH_SIZE_MAX, SLO_US_MAX, isName } from "./limits.ts";

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
export interface BatchReports {
  /** Batches that ended and are not listed. */
  readonly left: number;
  /** Eight numbers for each batch: thread, gpu, size, failed, and its four times. */
  readonly rows: readonly number[];
}

export interface StreamArrivals {
  readonly model: string;
  readonly app: string;
  readonly slo: Micros;
}

/** Arrivals at an ingress: all requests for a model, including those refused at admission. */
export interface ArrivalReports {
  /** Number of arrivals that each row stands for. */
  readonly every: number;
  /** Arrivals of streams beyond those that are listed. */
  readonly left: number;
  readonly streams: readonly StreamArrivals[];
  /** Two numbers for each arrival: the stream's index, and its time. */
  readonly rows: readonly number[];
}

/** A request that an ingress refused. */
export interface RefusalReport {
  readonly at: Instant;
  /** Name of the model; "": no known model. */
  readonly model: string;
  readonly code: ErrorCode;
  /** The text that the publisher gets. */
  readonly text: string;
}

const BATCH_WIDTH = 8;
const ARRIVAL_WIDTH = 2;
/** Longest reported age, µs; it keeps sums of times whole numbers. */
const AGO_MAX_US = 3_600e6;

/** @param at - time of the report */
export function batchRow(batch: BatchReport, at: Instant): number[] {
  const { thread, gpu, size, failed, firstAt, grantedAt, startedAt, finishedAt } = batch;
  const ago = (time: Instant): number => Math.min(AGO_MAX_US, between(time, at));
  return [thread, gpu, size, failed, ago(firstAt), ago(grantedAt), ago(startedAt), ago(finishedAt)];
}

/** @param at - time of the report. @returns undefined for an invalid value (T8) */
export function readBatches(value: unknown, at: Instant): { batches: BatchReport[]; left: number } | undefined {
  if (!isMap(value)) return undefined;
  const { left, rows } = value as Unknown<BatchReports>;
  if (!isCount(left) || !isRows(rows, BATCH_WIDTH, REPORTED_BATCHES_MAX)) return undefined;
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
  if (!isMap(value)) return undefined;
  const { every, left, streams, rows } = value as Unknown<ArrivalReports>;
  if (!isCount(every) || every === 0 || !isCount(left) || !isRows(rows, ARRIVAL_WIDTH, REPORTED_ARRIVALS_MAX))
    return undefined;
  if (!Array.isArray(streams) || streams.length > REPORTED_STREAMS_MAX || !streams.every(isStream)) return undefined;
  const arrivals: { stream: number; at: Instant }[] = [];
  for (let i = 0; i < rows.length; i += ARRIVAL_WIDTH) {
    const [stream = 0, ago = 0] = rows.slice(i, i + ARRIVAL_WIDTH);
    if (stream >= streams.length || ago > AGO_MAX_US) return undefined;
    arrivals.push({ stream, at: moment(at, ago) });
  }
  return { every, left, streams: streams as readonly StreamArrivals[], arrivals };
}

/** @returns undefined for an invalid value (T8) */
export function readRefusals(value: unknown): readonly RefusalReport[] | undefined {
  if (!Array.isArray(value) || value.length > REPORTED_REFUSALS_MAX) return undefined;
  return value.every(isRefusal) ? (value as readonly RefusalReport[]) : undefined;
}

type Unknown<T> = { readonly [K in keyof T]?: unknown };

const isMap = (value: unknown): value is object => typeof value === "object" && value !== null;
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isRows = (value: unknown, width: number, most: number): value is readonly number[] =>
  Array.isArray(value) && value.length % width === 0 && value.length <= width * most && value.every(isCount);
const isStream = (value: unknown): boolean => {
  if (!isMap(value)) return false;
  const { model, app, slo }: Unknown<StreamArrivals> = value;
  return [model, app].every((name) => typeof name === "string" && isName(name)) && isCount(slo) && slo <= SLO_US_MAX;
};
const isRefusal = (value: unknown): boolean => {
  if (!isMap(value)) return false;
  const { at, model, code, text }: Unknown<RefusalReport> = value;
  return (
    isCount(at) &&
    typeof model === "string" &&
    (model === "" || isName(model)) &&
    typeof code === "string" &&
    Object.hasOwn(ERROR_STATUS, code) &&
    typeof text === "string" &&
    text.length <= REPORTED_TEXT_LENGTH_MAX
  );
};

const moment = (at: Instant, ago: number): Instant => (ago >= at ? instant(0) : before(at, micros(ago)));
