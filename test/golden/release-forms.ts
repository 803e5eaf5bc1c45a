/**
 * The form of each message and stored value as plain data, a sample of each, and which changes of a form another
 * release can bear.
 */
import * as protocol from "@tutti/protocol";
import {
  BATCH_REFUSALS,
  WAITED_FOR,
  type CheckedMessage,
  ERROR_STATUS,
  type ErrorCode,
  type Field,
  type Fields,
  type MessageType,
  type SchemaForm,
  type StoredKind,
  codeNumber,
  dataTypeOfNumber,
  field,
} from "@tutti/protocol";

export const MESSAGES = Object.values<unknown>(protocol)
  .filter((value): value is MessageType<unknown> => typeof value === "object" && value !== null && "tag" in value)
  .sort((a, b) => a.tag - b.tag);
export const STORED = Object.values<unknown>(protocol).filter(
  (value): value is StoredKind<object> => typeof value === "function" && "formNumber" in value,
);

/** Fields of a fixed record: order counts. */
type FixedForm = readonly (readonly [string, string | { readonly list: FixedForm; readonly isAdded: boolean }])[];

export interface ReleaseForms {
  readonly messages: Readonly<Record<string, { readonly tag: number; readonly form: FixedForm | SchemaForm }>>;
  readonly stored: Readonly<Record<string, { readonly number: number; readonly form: SchemaForm }>>;
  /** Meaning of small numbers, by number. */
  readonly numbers: Readonly<Record<string, readonly string[]>>;
}

const nameOf = (of: Field<unknown>): string =>
  Object.entries<unknown>(field).find(([, value]) => value === of)?.[0] ?? of.kind;
const fixedForm = (fields: Fields): FixedForm =>
  Object.entries(fields).map(([name, of]) => [
    name,
    of.of === undefined ? nameOf(of) : { list: fixedForm(of.of), isAdded: of.isAdded === true },
  ]);

export function formsOfToday(): ReleaseForms {
  const formOf = (type: MessageType<unknown>): FixedForm | SchemaForm =>
    type.fields === undefined ? (type as CheckedMessage<unknown>).accepts.form : fixedForm(type.fields);
  const codes = Object.keys(ERROR_STATUS) as ErrorCode[];
  const types = Array.from({ length: 32 }, (_, number) => dataTypeOfNumber(number) ?? "");
  return {
    messages: Object.fromEntries(MESSAGES.map((type) => [type.name, { tag: type.tag, form: formOf(type) }])),
    stored: Object.fromEntries(STORED.map(({ kind, formNumber, form }) => [kind, { number: formNumber, form }])),
    numbers: {
      "error codes": codes.sort((a, b) => codeNumber(a) - codeNumber(b)),
      "data types": types.slice(0, types.findLastIndex((type) => type !== "") + 1),
      "refusals of batches": BATCH_REFUSALS,
      "what refused requests waited for": WAITED_FOR,
    },
  };
}

/**
 * Differences that a reader or a writer of the other release can't bear (STORED-2); none: the form is the same or grew.
 */
export function changes(frozen: unknown, now: unknown, where: string): string[] {
  if (JSON.stringify(frozen) === JSON.stringify(now)) return [];
  if (Array.isArray(frozen) && Array.isArray(now)) return changesOfFields(frozen as never, now as never, where);
  if (!isNode(frozen) || !isNode(now)) return [`${where}: ${text(frozen)} became ${text(now)}`];
  if ("record" in frozen && "record" in now) return changesOfMembers(frozen["record"], now["record"], where);
  if ("unchecked" in frozen && "unchecked" in now)
    return changes(frozen["unchecked"], now["unchecked"], `${where}?`).filter((change) => !GREW.test(change));
  const keys = Object.keys(frozen);
  if (keys.join() !== Object.keys(now).join()) return [`${where}: ${text(frozen)} became ${text(now)}`];
  if (keys[0] === "oneOf") return changesOfChoices(frozen["oneOf"] as string[], now["oneOf"] as string[], where);
  return keys.flatMap((key) => changes(frozen[key], now[key], `${where}.${key}`));
}

/** A list of choices that grew: readers of unchecked parts leave out what they don't know. */
const GREW = / grew by /;
function changesOfChoices(frozen: readonly string[], now: readonly string[], where: string): string[] {
  const gone = frozen.filter((choice) => !now.includes(choice));
  if (gone.length > 0) return [`${where}: ${text(gone)} is gone`];
  return [`${where} grew by ${text(now.filter((choice) => !frozen.includes(choice)))}`];
}

function changesOfMembers(frozen: unknown, now: unknown, where: string): string[] {
  const [old, members] = [frozen, now] as Record<string, unknown>[];
  const changed = Object.entries(old!).flatMap(([name, form]) =>
    name in members! ? changes(form, members![name], `${where}.${name}`) : [`${where}.${name} is gone`],
  );
  const more = Object.keys(members!).filter((name) => !(name in old!) && !isOptional(members![name]));
  return [...changed, ...more.map((name) => `${where}.${name} is new, and not optional`)];
}

function changesOfFields(frozen: FixedForm, now: FixedForm, where: string): string[] {
  const kept = now.slice(0, frozen.length);
  if (JSON.stringify(kept) !== JSON.stringify(frozen)) return [`${where}: ${text(frozen)} became ${text(kept)}`];
  const isAdded = (of: FixedForm[number][1]): boolean => typeof of === "object" && of.isAdded;
  return now
    .slice(frozen.length)
    .flatMap(([name, of]) => (isAdded(of) ? [] : [`${where}.${name} is new, and no list`]));
}

const isNode = (form: unknown): form is Record<string, unknown> =>
  typeof form === "object" && form !== null && !Array.isArray(form);
const isOptional = (form: unknown): boolean => isNode(form) && "optional" in form;
const text = (value: unknown): string => JSON.stringify(value)?.slice(0, 200) ?? "nothing";

/** A value that a form accepts, with every optional member. */
export function sampleOf(form: SchemaForm): unknown {
  if (typeof form === "string") return sampleOfText(form);
  if ("record" in form)
    return Object.fromEntries(Object.entries(form.record).map(([name, member]) => [name, sampleOf(member)]));
  if ("optional" in form) return sampleOf(form.optional);
  if ("list" in form) return [sampleOf(form.list)];
  if ("map" in form) return { [String(sampleOf(form.name))]: sampleOf(form.map) };
  if ("either" in form) return sampleOf(form.either[0]);
  if ("oneOf" in form) return form.oneOf[0];
  return sampleOf("rule" in form ? form.rule : form.unchecked);
}

const AT = 1_790_000_000_000_000;
function sampleOfText(form: string): unknown {
  const [, kind, least, most] = /^(whole|number) (\S+) to (\S+)$/.exec(form) ?? [];
  if (kind === "whole") return Math.min(Math.max(7, Number(least)), Number(most));
  if (kind === "number") return Math.min(Math.max(0.5, Number(least)), Number(most));
  const length = /^(\d+) bytes$/.exec(form)?.[1];
  if (length !== undefined) return new Uint8Array(Number(length)).fill(9);
  if (form.startsWith("text")) return "text";
  const values: Readonly<Record<string, unknown>> = {
    ...{ flag: true, "finite number": 1.5, instant: AT, micros: 500, anything: 7 },
    ...{ name: "main", "name of a model": "mlp" },
  };
  return values[form];
}

const FIXED: Readonly<Record<Exclude<Field<unknown>["kind"], "list">, unknown>> = {
  ...{ u8: 3, u16: 300, u32: 65, f64: 77_777, flag: true, token: new Uint8Array(16).fill(9), text: "Grüße" },
};
export const sampleOfFields = (fields: Fields): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(fields).map(([name, { kind, of }]) => [
      name,
      kind === "list" ? [sampleOfFields(of ?? {}), sampleOfFields(of ?? {})] : FIXED[kind],
    ]),
  );
