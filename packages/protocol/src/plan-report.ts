/**
 * The planner's observations and the reasons for its plan, for people. It is one value in the bucket of plans, beside
 * the placement.
 */
import { GPUS_MAX, type GpuId, type Instant } from "@tutti/units";
import { NAME_LENGTH_MAX, isName } from "./limits.ts";

export interface PlanReport {
  readonly at: Instant;
  /** Epoch of the placement that the report is about. */
  readonly epoch: number;
  readonly subClusters: readonly ReportedSubCluster[];
  readonly models: readonly ReportedModel[];
  readonly executors: readonly ReportedExecutor[];
  /** Moves that would balance loads better, and wait for room. */
  readonly waiting: readonly { readonly number: number; readonly to: string }[];
  readonly leftOut: readonly { readonly number: number; readonly text: string }[];
  /** Reasons for changes, the newest last. */
  readonly reasons: readonly { readonly at: Instant; readonly about: string; readonly text: string }[];
  readonly advice: {
    readonly gpus: number;
    readonly advice: number;
    readonly badRate: number;
    readonly idleShare: number;
  };
}
export interface ReportedSubCluster {
  readonly subCluster: string;
  /** Requests per second (`rate`), and the number of accelerators that they keep busy (`work`). */
  readonly rate: number;
  readonly work: number;
  readonly memoryBytes: number;
  readonly gpus: number;
  readonly gpusIdeal: number;
}
export interface ReportedModel {
  readonly number: number;
  readonly name: string;
  readonly rate: number;
  readonly work: number;
  readonly memoryBytes: number;
}
export interface ReportedExecutor {
  readonly gpus: readonly GpuId[];
  /** Sub-cluster whose leader the executor follows now. */
  readonly subCluster: string;
  readonly memoryBytes: number;
  /** Memory limit, bytes; absent: unbounded. */
  readonly memoryBytesMax?: number;
  readonly models: number;
}

/** Key in the bucket of plans. */
export const REPORT_KEY = "report";
/** Most entries in each list of a report; the rest is left out. */
export const REPORTED_MAX = 2_048;
const TEXT_LENGTH = 1_024;

type Unknown<T> = { readonly [K in keyof T]?: unknown };

const isNumber = (value: unknown): boolean => typeof value === "number" && Number.isFinite(value);
const isPositive = (value: unknown): boolean => isNumber(value) && (value as number) >= 0;
const isWhole = (value: unknown, below: number): boolean =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) < below;
const isText = (value: unknown, max: number): boolean => typeof value === "string" && value.length <= max;
const isSubCluster = (value: unknown): boolean => typeof value === "string" && isName(value);
const isList = <T>(value: unknown, isItem: (item: Unknown<T>) => boolean): boolean =>
  Array.isArray(value) &&
  value.length <= REPORTED_MAX &&
  value.every((item: unknown) => typeof item === "object" && item !== null && isItem(item as Unknown<T>));

const isNumberOfModel = (value: unknown): boolean => isWhole(value, 2 ** 26);
const isReportedSubCluster = (one: Unknown<ReportedSubCluster>): boolean =>
  isSubCluster(one.subCluster) &&
  [one.rate, one.work, one.memoryBytes, one.gpusIdeal].every(isPositive) &&
  isWhole(one.gpus, GPUS_MAX + 1);
const isReportedModel = (one: Unknown<ReportedModel>): boolean =>
  isNumberOfModel(one.number) &&
  isText(one.name, NAME_LENGTH_MAX) &&
  [one.rate, one.work, one.memoryBytes].every(isPositive);
const isReportedExecutor = (one: Unknown<ReportedExecutor>): boolean =>
  Array.isArray(one.gpus) &&
  one.gpus.length <= GPUS_MAX &&
  one.gpus.every((gpu: unknown) => isWhole(gpu, GPUS_MAX)) &&
  isSubCluster(one.subCluster) &&
  isPositive(one.memoryBytes) &&
  (one.memoryBytesMax === undefined || isPositive(one.memoryBytesMax)) &&
  isPositive(one.models);
const isAdvice = (value: unknown): boolean => {
  if (typeof value !== "object" || value === null) return false;
  const { gpus, advice, badRate, idleShare }: Unknown<PlanReport["advice"]> = value;
  return [gpus, badRate, idleShare].every(isPositive) && isNumber(advice);
};

/** Validates everything that readers rely on (T8). */
export function isPlanReport(value: unknown): value is PlanReport {
  if (typeof value !== "object" || value === null) return false;
  const report: Unknown<PlanReport> = value;
  return (
    isWhole(report.at, Number.MAX_SAFE_INTEGER) &&
    isWhole(report.epoch, Number.MAX_SAFE_INTEGER) &&
    isList<ReportedSubCluster>(report.subClusters, isReportedSubCluster) &&
    isList<ReportedModel>(report.models, isReportedModel) &&
    isList<ReportedExecutor>(report.executors, isReportedExecutor) &&
    isList<PlanReport["waiting"][number]>(
      report.waiting,
      ({ number, to }) => isNumberOfModel(number) && isSubCluster(to),
    ) &&
    isList<PlanReport["leftOut"][number]>(
      report.leftOut,
      ({ number, text }) => isNumberOfModel(number) && isText(text, TEXT_LENGTH),
    ) &&
    isList<PlanReport["reasons"][number]>(
      report.reasons,
      ({ at, about, text }) =>
        isWhole(at, Number.MAX_SAFE_INTEGER) && isText(about, TEXT_LENGTH) && isText(text, TEXT_LENGTH),
    ) &&
    isAdvice(report.advice)
  );
}
