import type { ActorKey, BatchId, GpuId, Instant, Micros, RequestSeq, ThreadId } from "@tutti/units";
import { type RecordOf, type Schema, type SchemaFields, schema } from "./schema.ts";

/**
 * Encodings of a field in a fixed record. All are little-endian; instants and counts are float64, which hold 53-bit
 * integers.
 */
export type FieldKind = "u8" | "u16" | "u32" | "f64" | "flag" | "token" | "text" | "list";

declare const carried: unique symbol;
/** A field of a record; `Carried` is the TypeScript type that it carries. */
export interface Field<Carried> {
  readonly kind: FieldKind;
  readonly of?: Fields;
  /** Whether older writers don't have it: a record that ends before it has none. Of the last field alone. */
  readonly isAdded?: boolean;
  readonly [carried]?: Carried;
}
export type Fields = Readonly<Record<string, Field<unknown>>>;
export type ValuesOf<F extends Fields> = {
  -readonly [K in keyof F]: F[K] extends Field<infer Carried> ? Carried : never;
};

const plain = <Carried>(kind: FieldKind): Field<Carried> => ({ kind });

/** 16 bytes. */
export const TOKEN_BYTES = 16;

export const field = {
  byte: plain<number>("u8"),
  flag: plain<boolean>("flag"),
  word: plain<number>("u32"),
  /** A count, sequence, term or epoch: up to 2^53. */
  count: plain<number>("f64"),
  instant: plain<Instant>("f64"),
  micros: plain<Micros>("f64"),
  /** A size hint: 0 (none) to SIZE_HINT_MAX, fractions allowed. */
  units: plain<number>("f64"),
  /** Cost of a late answer: 0 to COST_MAX, fractions allowed. */
  cost: plain<number>("f64"),
  gpu: plain<GpuId>("u32"),
  thread: plain<ThreadId>("u32"),
  actor: plain<ActorKey>("f64"),
  request: plain<RequestSeq>("f64"),
  batch: plain<BatchId>("f64"),
  token: plain<Uint8Array>("token"),
  /** At most 65,535 bytes of UTF-8. */
  text: plain<string>("text"),
  list: <F extends Fields>(of: F): Field<readonly Readonly<ValuesOf<F>>[]> => ({ kind: "list", of }),
  /** A list at the end of a record that older writers end before it. */
  addedList: <F extends Fields>(of: F): Field<readonly Readonly<ValuesOf<F>>[]> => ({
    kind: "list",
    of,
    isAdded: true,
  }),
} as const;

/**
 * A message type. Delivery is at most once: `repair` says how a lost message is repaired. Fixed messages have `fields`;
 * packed ones carry any msgpack value, and are for rare messages.
 */
export interface MessageType<Value> {
  readonly tag: number;
  readonly name: string;
  readonly from: string;
  readonly to: string;
  readonly repair: string;
  readonly fields: Fields | undefined;
  readonly [carried]?: Value;
}
/** A packed message whose values are checked before a handler sees them (T8). */
export interface CheckedMessage<Value> extends MessageType<Value> {
  readonly accepts: Schema<Value>;
}
export type MessageOf<M> = M extends MessageType<infer Value> ? Value : never;

interface Declaration {
  readonly tag: number;
  readonly name: string;
  readonly from: string;
  readonly to: string;
  readonly repair: string;
}

export const message = <F extends Fields>(
  declaration: Declaration & { readonly fields: F },
): MessageType<ValuesOf<F>> => declaration;
/** @param also - what holds between fields */
export function packed<F extends SchemaFields>(
  fields: F,
  declaration: Declaration & { readonly also?: (value: RecordOf<F>) => boolean },
): CheckedMessage<RecordOf<F>> {
  const { also, ...rest } = declaration;
  const record = schema.record(fields);
  return { ...rest, fields: undefined, accepts: also === undefined ? record : schema.also(record, also) };
}
