/**
 * As well-formed.ts, for the messages that carry isolated running times to the profiler. Values accepted here are
 * planned with (T8).
 */
import {
  ALONE_TOLD_MAX,
  APPS_TOLD_MAX,
  type AloneMeasured,
  type AppsCounted,
  type AppsNamed,
  BATCH_SIZE_MAX,
  type IdleAsked,
  type IdleGiven,
  MARKS_MAX,
  SIZE_HINT_MAX,
  SLO_US_MAX,
  type SamplesWanted,
  isName,
} from "@tutti/protocol";
import { ACTOR_KEY_MAX, GPUS_MAX } from "@tutti/units";

type Unknown<T> = { readonly [K in keyof T]?: unknown };

const isWhole = (value: unknown, min: number, max: number): value is number =>
  Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max;
const isCount = (value: unknown): value is number => isWhole(value, 0, Number.MAX_SAFE_INTEGER);
const isKey = (value: unknown): boolean => isWhole(value, 1, ACTOR_KEY_MAX - 1);
const isGpu = (value: unknown): boolean => isWhole(value, 0, GPUS_MAX - 1);
const isThread = (value: unknown): boolean => isWhole(value, 0, 2 ** 32 - 1);
const isApp = isThread;
/** Whether a value is a running time: at most as long as a deadline may be. */
const isTime = (value: unknown): boolean => isWhole(value, 1, SLO_US_MAX);
const isUnits = (value: unknown): boolean => typeof value === "number" && value >= 0 && value <= SIZE_HINT_MAX;
const isList = <T>(value: unknown, max: number, isItem: (item: Unknown<T>) => boolean): boolean =>
  Array.isArray(value) &&
  value.length <= max &&
  value.every((item: unknown) => typeof item === "object" && item !== null && isItem(item));

const isSamplesWanted = ({ batchId, thread, what, rows }: Unknown<SamplesWanted>): boolean =>
  isCount(batchId) &&
  isThread(thread) &&
  (what === "some" || what === "all" || what === "longest") &&
  isList<SamplesWanted["rows"][number]>(
    rows,
    MARKS_MAX,
    ({ ingress, seq, app, units }) => isKey(ingress) && isCount(seq) && isApp(app) && isUnits(units),
  );

const isIdleAsked = ({ gpu, executor, epoch, grantSeq, takes }: Unknown<IdleAsked>): boolean =>
  isGpu(gpu) && isKey(executor) && isCount(epoch) && isCount(grantSeq) && isTime(takes);

const isIdleGiven = ({ gpu, epoch, grantSeq, validUntil, until }: Unknown<IdleGiven>): boolean =>
  isGpu(gpu) && isCount(epoch) && isCount(grantSeq) && isCount(validUntil) && isCount(until);

const isAloneMeasured = ({ thread, samples, batches, pairs = [] }: Unknown<AloneMeasured>): boolean =>
  isThread(thread) &&
  isList<AloneMeasured["samples"][number]>(
    samples,
    ALONE_TOLD_MAX,
    ({ app, units, alone }) => isApp(app) && isUnits(units) && isTime(alone),
  ) &&
  isList<AloneMeasured["batches"][number]>(
    batches,
    ALONE_TOLD_MAX,
    ({ batchSize, alone, took }) => isWhole(batchSize, 1, BATCH_SIZE_MAX) && isTime(alone) && isTime(took),
  ) &&
  isList<NonNullable<AloneMeasured["pairs"]>[number]>(
    pairs,
    ALONE_TOLD_MAX,
    ({ once, again }) => isTime(once) && isTime(again),
  );

const isAppsCounted = ({ thread, apps }: Unknown<AppsCounted>): boolean =>
  isThread(thread) &&
  isList<AppsCounted["apps"][number]>(apps, APPS_TOLD_MAX, ({ app, count }) => isApp(app) && isWhole(count, 1, 1e9));

const isAppsNamed = ({ apps }: Unknown<AppsNamed>): boolean =>
  Array.isArray(apps) &&
  apps.length <= APPS_TOLD_MAX &&
  apps.every((name: unknown) => typeof name === "string" && isName(name));

/** Checks by message. */
export const wellFormedSamples = {
  samplesWanted: isSamplesWanted,
  idleAsked: isIdleAsked,
  idleGiven: isIdleGiven,
  aloneMeasured: isAloneMeasured,
  appsCounted: isAppsCounted,
  appsNamed: isAppsNamed,
};
