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
import { isModelName } from "./stored/versions.ts";

/**
 * Form of a schema as plain data, which test/golden keeps of each release. It has everything but the rules between
 * parts of a value, of which it only says that there is one.
 */
export type SchemaForm =
  | string
  | { readonly record: Readonly<Record<string, SchemaForm>> }
  | { readonly optional: SchemaForm }
  | { readonly list: SchemaForm; readonly most?: number }
  | { readonly map: SchemaForm; readonly name: SchemaForm; readonly most?: number }
  | { readonly either: readonly [SchemaForm, SchemaForm] }
  | { readonly oneOf: readonly string[] }
  | { readonly rule: SchemaForm }
  | { readonly unchecked: SchemaForm };

/** Returns whether a value is a `T`. Instants and times that pass may be infinite where their text says so. */
export type Schema<T> = ((value: unknown) => value is T) & { readonly form: SchemaForm };
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

/** A schema by its form and its check. */
const where = <T>(form: SchemaForm, passes: (value: unknown) => boolean): Schema<T> =>
  Object.assign(passes, { form }) as Schema<T>;

const whole = <T extends number = number>(least: number, most: number): Schema<T> =>
  where(
    `whole ${least} to ${most}`,
    (value) => Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most,
  );
const between = <T extends number = number>(least: number, most: number): Schema<T> =>
  where(`number ${least} to ${most}`, (value) => typeof value === "number" && value >= least && value <= most);

function record<F extends SchemaFields>(fields: F): Schema<RecordOf<F>> {
  const entries = Object.entries(fields) as [string, Schema<unknown>][];
  const form: SchemaForm = { record: Object.fromEntries(entries.map(([key, accepts]) => [key, accepts.form])) };
  return where(
    form,
    (value) =>
      typeof value === "object" &&
      value !== null &&
      entries.every(([key, accepts]) => accepts((value as Readonly<Record<string, unknown>>)[key])),
  );
}

/** Part of the form of a schema with a greatest length. */
const upTo = (most: number): { readonly most?: number } => (most === Infinity ? {} : { most });

const list = <T>(item: Schema<T>, most = Infinity): Schema<readonly T[]> =>
  where(
    { list: item.form, ...upTo(most) },
    (value) => Array.isArray(value) && value.length <= most && value.every(item),
  );

/** A list in which no two items have the same key. */
const distinct = <T>(item: Schema<T>, most: number, keyOf: (item: T) => unknown): Schema<readonly T[]> =>
  also(list(item, most), (items) => new Set(items.map(keyOf)).size === items.length);

/** An object whose names are data: a value of the same kind for each name. */
const map = <T>(
  item: Schema<T>,
  { name = text(), most = Infinity }: { readonly name?: Schema<string>; readonly most?: number } = {},
): Schema<Readonly<Record<string, T>>> =>
  where({ map: item.form, name: name.form, ...upTo(most) }, (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
    const entries = Object.entries(value);
    return entries.length <= most && entries.every(([key, one]) => name(key) && item(one));
  });

const optional = <T>(schema: Schema<T>): OptionalSchema<T> =>
  Object.assign(
    where<T>({ optional: schema.form }, (value) => value === undefined || schema(value)),
    { isOptional: true as const },
  );

/** A schema with a rule between its parts. */
const also = <T>(one: Schema<T>, holds: (value: T) => boolean): Schema<T> =>
  where({ rule: one.form }, (value) => one(value) && holds(value));

const either = <A, B>(one: Schema<A>, other: Schema<B>): Schema<A | B> =>
  where({ either: [one.form, other.form] }, (value) => one(value) || other(value));

const oneOf = <const T extends string>(choices: readonly T[]): Schema<T> =>
  where({ oneOf: choices }, (value) => (choices as readonly unknown[]).includes(value));

const text = (lengthMax = Infinity): Schema<string> =>
  where(`text up to ${lengthMax}`, (value) => typeof value === "string" && value.length <= lengthMax);

export const schema = {
  ...{ record, list, distinct, map, optional, also, either, oneOf, whole, between, text },
  /** Anything: readers check what they use of it, so that the rest counts where this is unreadable. */
  unchecked: <T>(of?: Schema<T>): Schema<T> => where({ unchecked: of?.form ?? "anything" }, () => true),
  flag: where<boolean>("flag", (value) => typeof value === "boolean"),
  /** A count, sequence, term or epoch: up to 2^53. */
  count: whole(0, Number.MAX_SAFE_INTEGER),
  /** Any number but NaN and the infinite ones. */
  finite: where<number>("finite number", (value) => Number.isFinite(value)),
  /** NEVER and ALWAYS are instants too. */
  instant: where<Instant>("instant", (value) => typeof value === "number" && Math.floor(value) === value),
  /** An instant that comes. */
  moment: whole<Instant>(0, Number.MAX_SAFE_INTEGER),
  /** A time that may be NEVER. */
  micros: where<Micros>("micros", (value) => typeof value === "number" && Math.floor(value) === value && value >= 0),
  /** A time that ends. */
  time: whole<Micros>(0, Number.MAX_SAFE_INTEGER),
  slo: whole<Micros>(1, SLO_US_MAX),
  /** Time that a run takes: at most as long as a deadline may be. */
  runTime: whole<Micros>(1, SLO_US_MAX),
  actor: whole<ActorKey>(1, ACTOR_KEY_MAX - 1),
  gpu: whole<GpuId>(0, GPUS_MAX - 1),
  thread: whole<ThreadId>(0, 2 ** 32 - 1),
  batch: whole<BatchId>(0, Number.MAX_SAFE_INTEGER),
  /** Number of a model: thread ids, number × 64 + bucket, are 31 bits wide, and one says that it is of jobs. */
  model: whole(0, 2 ** 25 - 1),
  bucket: whole(0, BUCKETS_MAX - 1),
  batchSize: whole(1, BATCH_SIZE_MAX),
  /** FNV-1a of an application's name. */
  app: whole(0, 2 ** 32 - 1),
  /** A size hint; 0: none. */
  units: between(0, SIZE_HINT_MAX),
  role: oneOf<Role>(ROLES),
  /** Name of a sub-cluster or an application. */
  name: where<string>("name", (value) => typeof value === "string" && isName(value)),
  /** Name of a model, or of a version beside it: `mlp`, `mlp/2`. */
  modelName: where<string>("name of a model", (value) => typeof value === "string" && isModelName(value)),
  bytes: (length: number): Schema<Uint8Array> =>
    where(`${length} bytes`, (value) => value instanceof Uint8Array && value.byteLength === length),
} as const;
