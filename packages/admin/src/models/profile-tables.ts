/** Profiles for people: latencies of batches as given and as learned, and how runs vary. */
import { LatencyTable } from "@tutti/profile";
import { type LearnedSize, type ModelRunTimes, type ModelSpec, type ModelStatus, threadName } from "@tutti/protocol";
import { type Micros, formatDuration, micros } from "@tutti/units";
import { renderTable } from "../table.ts";

export interface ProfileTable {
  /** The model's name, with its bucket's sizes. */
  readonly name: string;
  /** Executor type. */
  readonly type: string;
  /** Where the latencies under `given` come from. */
  readonly source: "given" | "measured at load";
  readonly sizes: readonly ProfileSize[];
}
/** Times in µs. */
export interface ProfileSize {
  readonly batchSize: number;
  readonly given: Micros;
  /** As plans have it now. */
  readonly learned: Micros;
  /** Quantiles of recent runs; absent: there were too few. */
  readonly spread?: LearnedSize["spread"];
}

/** @returns one table for each bucket and executor type, empty before the model has a profile */
export function profileTables(
  spec: ModelSpec,
  status: ModelStatus | undefined,
  times: ModelRunTimes | undefined,
): ProfileTable[] {
  if (status === undefined) return [];
  const own = JSON.stringify(spec.profile);
  return spec.buckets.flatMap((_, bucket) =>
    typesOf(spec, status).flatMap((one): ProfileTable[] => {
      const [given, planned] = [one.profiles[bucket] ?? [], (one.live ?? one.profiles)[bucket] ?? []];
      if (given.length === 0 || planned.length === 0) return [];
      const [seed, table] = [LatencyTable.fromPoints(given), LatencyTable.fromPoints(planned)];
      const taught = (times?.learned?.sizes ?? []).filter((size) => size.bucket === bucket && size.type === one.type);
      const known = new Map(taught.map((size) => [size.batchSize, size]));
      const largest = Math.min(seed.batchSizeMax, table.batchSizeMax);
      const sizes = [...new Set([...doublings(largest), ...known.keys()])].filter((size) => size <= largest);
      return [
        {
          ...{ name: threadName(spec, bucket), type: one.type },
          source: JSON.stringify(one.profiles) === own ? "given" : "measured at load",
          sizes: sizes
            .sort((a, b) => a - b)
            .map((batchSize) => {
              const { given: told, spread } = known.get(batchSize) ?? {};
              return {
                ...{ batchSize, given: micros(told ?? seed.latency(batchSize)), learned: table.latency(batchSize) },
                ...(spread !== undefined && { spread }),
              };
            }),
        },
      ];
    }),
  );
}

type TypeProfiles = Pick<NonNullable<ModelStatus["byType"]>[number], "type" | "profiles" | "live">;

/** Types that are not told apart have the same latencies. */
function typesOf(spec: ModelSpec, { byType, executorTypes, profiles }: ModelStatus): readonly TypeProfiles[] {
  const types = executorTypes.length > 0 ? executorTypes : [""];
  return byType ?? types.map((type) => ({ type, profiles: spec.profile ?? profiles, live: profiles }));
}

function doublings(largest: number): number[] {
  const sizes = [largest];
  for (let size = 1; size < largest; size *= 2) sizes.push(size);
  return sizes;
}

/** The tables, and until when the runs were that they show. */
export function renderProfiles(tables: readonly ProfileTable[], times: ModelRunTimes | undefined): string {
  const parts = tables.map(({ name, type, source, sizes }) =>
    [
      `${name}${type === "" ? "" : ` on ${type}`}: latencies of batches`,
      renderTable(
        ["batch", source, "learned", "p10", "p50", "p90", "runs"],
        sizes.map(({ batchSize, given, learned, spread }) => [
          ...[String(batchSize), formatDuration(given), formatDuration(learned)],
          ...[spread?.p10, spread?.p50, spread?.p90].map((us) => (us === undefined ? "-" : duration(us))),
          String(spread?.runs ?? "-"),
        ]),
      ),
    ].join("\n"),
  );
  return [...parts, spreadText(times)].join("\n\n");
}

/** A sentence about where the columns come from. */
export const spreadText = (times: ModelRunTimes | undefined): string =>
  times?.learned === undefined
    ? "Plans use what is learned. Nothing is learned yet."
    : `Plans use what is learned. The quantiles are those of recent runs, until ${new Date(times.learned.at / 1_000).toISOString()}.`;

const duration = (us: number): string => formatDuration(micros(Math.round(us)));
