/**
 * Schemas of values that come from outside (T8). A schema is the check of a value, and the type of what passes follows
 * from it: a message is declared once.
 */
import {
  ACTOR_KEY_MAX,
  type ActorKey,
  BUCKETS_MAX,
  type BatchId,
  GPUS_MAX,
  type GpuId,
  type Instant,
  type Micros,
  type ThreadId,
} from "@tutti/units";
import { BATCH_SIZE_MAX, SIZE_HINT_MAX, SLO_US_MAX, isName } from "./limits.ts";
import { ROLES, type Role } from "./subjects.ts";
import { isModelName } from "./versions.ts";

/** Returns whether a value is a `T`. Instants and times that pass may be infinite where their text says so. */
export type Schema<T> = (value: unknown) => value is T;
export type OptionalSchema<T> = Schema<T> & { readonly isOptional: true };
export type Static<S> = S extends Schema<infer T> ? T : never;

export type SchemaFields = Readonly<Record<string, Schema<never> | Schema<unknown>>>;
type OptionalKeys<F> = { [K in keyof F]: F[K] extends { readonly isOptional: true } ? K : never }[keyof F];
/** One object type, so that editors show its members. */
type Merged<T> = { [K in keyof T]: T[K] };
export type RecordOf<F> = Merged<
  { readonly [K in Exclude<keyof F, OptionalKeys<F>>]: Static<F[K]> } & {
    readonly [K in OptionalKeys<F>]?: Static<F[K]>;
  }
>;

/** A schema by its check. */
const where = <T>(passes: (value: unknown) => boolean): Schema<T> => passes as Schema<T>;

const whole = <T extends number = number>(least: number, most: number): Schema<T> =>
  where((value) => Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most);
const between = <T extends number = number>(least: number, most: number): Schema<T> =>
  where((value) => typeof value === "number" && value >= least && value <= most);

function record<F extends SchemaFields>(fields: F): Schema<RecordOf<F>> {
  const entries = Object.entries(fields);
  return where(
    (value) =>
      typeof value === "object" &&
      value !== null &&
      entries.every(([key, accepts]) => accepts((value as Readonly<Record<string, unknown>>)[key])),
  );
}

const list = <T>(item: Schema<T>, most = Infinity): Schema<readonly T[]> =>
  where((value) => Array.isArray(value) && value.length <= most && value.every(item));

/** A list in which no two items have the same key. */
const distinct = <T>(item: Schema<T>, most: number, keyOf: (item: T) => unknown): Schema<readonly T[]> =>
  also(list(item, most), (items) => new Set(items.map(keyOf)).size === items.length);

/** An object whose names are data: a value of the same kind for each name. */
const map = <T>(
  item: Schema<T>,
  { name = text(), most = Infinity }: { readonly name?: Schema<string>; readonly most?: number } = {},
): Schema<Readonly<Record<string, T>>> =>
  where((value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
    const entries = Object.entries(value);
    return entries.length <= most && entries.every(([key, one]) => name(key) && item(one));
  });

const optional = <T>(schema: Schema<T>): OptionalSchema<T> =>
  Object.assign(
    where<T>((value) => value === undefined || schema(value)),
    { isOptional: true as const },
  );

/** A schema with a rule between its parts. */
const also = <T>(one: Schema<T>, holds: (value: T) => boolean): Schema<T> =>
  where((value) => one(value) && holds(value));

const either = <A, B>(one: Schema<A>, other: Schema<B>): Schema<A | B> => where((value) => one(value) || other(value));

const oneOf = <const T extends string>(choices: readonly T[]): Schema<T> =>
  where((value) => (choices as readonly unknown[]).includes(value));

const text = (lengthMax = Infinity): Schema<string> =>
  where((value) => typeof value === "string" && value.length <= lengthMax);

export const schema = {
  ...{ record, list, distinct, map, optional, also, either, oneOf, whole, between, text },
  /** Anything: readers check what they use of it, so that the rest counts where this is unreadable. */
  unchecked: <T>(): Schema<T> => where(() => true),
  flag: where<boolean>((value) => typeof value === "boolean"),
  /** A count, sequence, term or epoch: up to 2^53. */
  count: whole(0, Number.MAX_SAFE_INTEGER),
  /** Any number but NaN and the infinite ones. */
  finite: where<number>((value) => Number.isFinite(value)),
  /** NEVER and ALWAYS are instants too. */
  instant: where<Instant>((value) => typeof value === "number" && Math.floor(value) === value),
  /** An instant that comes. */
  moment: whole<Instant>(0, Number.MAX_SAFE_INTEGER),
  /** A time that may be NEVER. */
  micros: where<Micros>((value) => typeof value === "number" && Math.floor(value) === value && value >= 0),
  /** A time that ends. */
  time: whole<Micros>(0, Number.MAX_SAFE_INTEGER),
  slo: whole<Micros>(1, SLO_US_MAX),
  /** Time that a run takes: at most as long as a deadline may be. */
  runTime: whole<Micros>(1, SLO_US_MAX),
  actor: whole<ActorKey>(1, ACTOR_KEY_MAX - 1),
  gpu: whole<GpuId>(0, GPUS_MAX - 1),
  thread: whole<ThreadId>(0, 2 ** 32 - 1),
  batch: whole<BatchId>(0, Number.MAX_SAFE_INTEGER),
  /** Number of a model: thread ids, number × 64 + bucket, are 32 bits wide. */
  model: whole(0, 2 ** 26 - 1),
  bucket: whole(0, BUCKETS_MAX - 1),
  batchSize: whole(1, BATCH_SIZE_MAX),
  /** FNV-1a of an application's name. */
  app: whole(0, 2 ** 32 - 1),
  /** A size hint; 0: none. */
  units: between(0, SIZE_HINT_MAX),
  role: oneOf<Role>(ROLES),
  /** Name of a sub-cluster or an application. */
  name: where<string>((value) => typeof value === "string" && isName(value)),
  /** Name of a model, or of a version beside it: `mlp`, `mlp/2`. */
  modelName: where<string>((value) => typeof value === "string" && isModelName(value)),
  bytes: (length: number): Schema<Uint8Array> =>
    where((value) => value instanceof Uint8Array && value.byteLength === length),
} as const;
