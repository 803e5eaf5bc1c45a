/**
 * Kinds of values in the store, and the forms that they have had.
 *
 *   STORED-1. Each value says the number of its form: its member `form`. A value without one has form 1.
 *   STORED-2. A form may only grow, by optional members. Any other change is a new form, with the next number.
 *   STORED-3. A release reads the forms of the release before it, and writes none that the release before it can't
 *             read: a new form is written one release after the first that reads it. So one release back is always
 *             possible. Such a kind is declared with two numbers, the newest form that is read and the one that is
 *             written.
 *   STORED-4. A value of a newer form is never taken for one of a known form: readers ignore it, and say so once. What
 *             actors make anew (leases, placements, reports, statuses, running times) they write over it, by
 *             compare-and-set where others read it as a decision. What people have decided (models, routes,
 *             quarantines) nobody overwrites.
 */
import { assert } from "@tutti/units";
import type { Schema } from "../schema.ts";

/** A schema of the newest form that this release knows of a kind of values. */
export type StoredKind<T> = Schema<T> & {
  /** Name of the kind, for people. */
  readonly kind: string;
  /** Number of the newest form that this release reads. */
  readonly formNumber: number;
  /** Number of the form that this release writes (STORED-3). */
  readonly writtenForm: number;
};

/** @param forms - the number of the form that is read and written, or both numbers where they differ (STORED-3) */
export function stored<T>(
  kind: string,
  forms: number | { readonly reads: number; readonly writes: number },
  accepts: Schema<T>,
): StoredKind<T> {
  const { reads, writes } = typeof forms === "number" ? { reads: forms, writes: forms } : forms;
  assert(writes === reads || writes === reads - 1, `${kind}: a release reads form ${writes} and the next one at most`);
  const check = (value: unknown): value is T => accepts(value) && formNumberOf(value) <= reads;
  return Object.assign(check, { kind, formNumber: reads, writtenForm: writes, form: accepts.form });
}

/** Number of the form of a value (STORED-1); Infinity: nothing that a release has written. */
export function formNumberOf(value: unknown): number {
  if (typeof value !== "object" || value === null || !("form" in value)) return 1;
  return Number.isSafeInteger(value.form) && (value.form as number) >= 1 ? (value.form as number) : Infinity;
}
