/** Values of the store as bytes: JSON that says the number of its form (packages/protocol/src/stored/stored.ts). */
import { type StoredKind, formNumberOf } from "@tutti/protocol";
import { fromJson, toJson } from "./msgpack.ts";

/** Encodes a value, which has the form that this release writes (STORED-1, STORED-3). */
export const writeStored = <T extends object>({ writtenForm: form }: StoredKind<T>, value: T): Uint8Array =>
  toJson({ form, ...value });

/**
 * Reads a value, which is without the number of its form then.
 *
 * @returns undefined if it can't be read, is of a newer form, or is not what the kind accepts (T8)
 */
export function readStored<T>(bytes: Uint8Array, accepts: StoredKind<T>): T | undefined {
  try {
    const value = fromJson(bytes);
    if (!accepts(value)) return undefined;
    const { form: _, ...rest } = value as T & { readonly form?: unknown };
    return rest as T;
  } catch {
    return undefined;
  }
}

/** Why a value is not overwritten (STORED-4), for people; undefined: it is of no newer form. */
export function newerForm(bytes: Uint8Array, { kind, formNumber }: StoredKind<unknown>): string | undefined {
  try {
    const found = formNumberOf(fromJson(bytes));
    if (found <= formNumber || found === Infinity) return undefined;
    return `the ${kind} was written by a newer release (form ${found}, and this release reads up to ${formNumber}): upgrade this one`;
  } catch {
    return undefined;
  }
}
