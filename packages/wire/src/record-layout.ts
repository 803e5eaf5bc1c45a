/**
 * Memory layout of a fixed record: one loop over the declared fields, which writes from and reads into `slots`. Values
 * move between slots and objects by name. Hot messages use literals instead (record-shapes.ts), because naming ten
 * properties by computed keys costs 280 ns and a literal 50.
 *
 *   LAYOUT-1. Nothing is read before its bounds are checked: a record that ends early, or a list that can't fit, is a
 *             fault.
 *   LAYOUT-2. Every value that is read is in range: ids, counts and moments that no writer of ours produces are faults,
 *             not values.
 *   LAYOUT-3. A record of an older writer that ends before a list which was added since has none of its items.
 */
import { COST_MAX, type Field, type Fields, SIZE_HINT_MAX, TOKEN_BYTES, field } from "@tutti/protocol";
import { ACTOR_KEY_MAX, AssertionError, GPUS_MAX, assert } from "@tutti/units";
import { SHAPES, type Shape } from "./record-shapes.ts";

/** Constraint on a field's number, beyond its width. */
type Check = "any" | "count" | "positive" | "instant" | "micros" | "units" | "cost" | "gpu" | "actor";
const CHECKS: ReadonlyMap<Field<unknown>, Check> = new Map<Field<unknown>, Check>([
  [field.count, "count"],
  [field.instant, "instant"],
  [field.micros, "micros"],
  [field.units, "units"],
  [field.cost, "cost"],
  [field.gpu, "gpu"],
  [field.actor, "actor"],
  [field.request, "positive"],
  [field.batch, "count"],
]);

const U8 = 0;
const U16 = 1;
const U32 = 2;
const GPU = 3;
const FLAG = 4;
const ANY = 5;
const COUNT = 6;
const POSITIVE = 7;
const INSTANT = 8;
const MICROS = 9;
const UNITS = 10;
const ACTOR = 11;
const TOKEN = 12;
const TEXT = 13;
const LIST = 14;
const F64_OPS: Record<Check, number> = {
  any: ANY,
  count: COUNT,
  positive: POSITIVE,
  instant: INSTANT,
  micros: MICROS,
  units: UNITS,
  cost: UNITS, // both have the same bounds
  gpu: ANY,
  actor: ACTOR,
};
/** Least bytes of each op: text and lists have at least their length. */
const OP_BYTES = [1, 2, 4, 4, 1, 8, 8, 8, 8, 8, 8, 8, TOKEN_BYTES, 2, 4];

function opOf(of: Field<unknown>): number {
  switch (of.kind) {
    case "u8":
      return U8;
    case "u16":
      return U16;
    case "u32":
      return CHECKS.get(of) === "gpu" ? GPU : U32;
    case "flag":
      return FLAG;
    case "f64":
      return F64_OPS[CHECKS.get(of) ?? "any"];
    case "token":
      return TOKEN;
    case "text":
      return TEXT;
    case "list":
      return LIST;
  }
}

/** True for the numbers that a float64 field of this op may hold; NaN never is. */
function holds(op: number, value: number): boolean {
  switch (op) {
    case ANY:
      return value === value;
    case COUNT:
      return value >= 0 && value <= Number.MAX_SAFE_INTEGER && Math.floor(value) === value;
    case POSITIVE:
      return value >= 1 && value <= Number.MAX_SAFE_INTEGER && Math.floor(value) === value;
    case MICROS:
      return value >= 0 && Math.floor(value) === value; // +Infinity: for ever
    case UNITS:
      return value >= 0 && value <= SIZE_HINT_MAX;
    case INSTANT:
      return Math.floor(value) === value; // NEVER and ALWAYS are moments too
    default:
      return value >= 1 && value < ACTOR_KEY_MAX && Math.floor(value) === value;
  }
}

assert(COST_MAX === SIZE_HINT_MAX, "costs and size hints are checked alike");

export class RecordLayout {
  readonly bytesMin: number;
  readonly #names: readonly string[];
  readonly #ops: readonly number[];
  readonly #items: readonly (RecordLayout | undefined)[];
  readonly #shape: Shape<unknown> | undefined;
  readonly #isFixed: boolean;
  /** Whether the last field is a list that older writers don't know (LAYOUT-3). */
  readonly #endsWithAdded: boolean;
  /** One record's values in transit; layouts aren't recursive, so one array each is enough. */
  readonly #slots: unknown[];

  constructor(fields: Fields) {
    const declared = Object.values(fields);
    this.#names = Object.keys(fields);
    this.#ops = declared.map(opOf);
    this.#items = declared.map(({ of }) => (of === undefined ? undefined : new RecordLayout(of)));
    this.#shape = SHAPES.get(fields);
    this.#isFixed = !this.#ops.some((op) => op === TEXT || op === LIST);
    this.bytesMin = this.#ops.reduce((sum, op) => sum + OP_BYTES[op]!, 0);
    assert(this.#names.length > 0, "a record has at least one field");
    this.#endsWithAdded = declared.at(-1)!.isAdded === true;
    assert(!declared.slice(0, -1).some(({ isAdded }) => isAdded === true), "only the last field may be added later");
    // Mixed contents from the start, so that V8 keeps the array generic instead of converting it at run time.
    this.#slots = this.#names.map((_, i) => (i === 0 ? {} : i === 1 ? 0.5 : 0));
  }

  #spread(value: unknown): unknown[] {
    const slots = this.#slots;
    if (this.#shape !== undefined) this.#shape.spread(value, slots);
    else for (let i = 0; i < slots.length; i++) slots[i] = (value as Record<string, unknown>)[this.#names[i]!];
    return slots;
  }

  #gather(): unknown {
    const slots = this.#slots;
    if (this.#shape !== undefined) return this.#shape.gather(slots as never[]);
    const value: Record<string, unknown> = {};
    for (let i = 0; i < slots.length; i++) value[this.#names[i]!] = slots[i];
    return value;
  }

  /** An upper bound of the bytes that `value` takes. */
  sizeOf(value: unknown): number {
    if (this.#isFixed) return this.bytesMin;
    let size = this.bytesMin;
    for (let i = 0; i < this.#ops.length; i++) {
      const op = this.#ops[i]!;
      if (op !== TEXT && op !== LIST) continue;
      const member = (value as Record<string, unknown>)[this.#names[i]!];
      if (op === TEXT) size += (member as string).length * 3;
      else {
        const layout = this.#items[i]!;
        const items = member as unknown[];
        if (layout.#isFixed) size += items.length * layout.bytesMin;
        else for (const item of items) size += layout.sizeOf(item);
      }
    }
    return size;
  }

  /**
   * Writes at `at`, where `sizeOf(value)` bytes are free. @returns the end. Asserts LAYOUT-2, so that a fault shows
   * where it was made.
   */
  write(view: DataView, bytes: Uint8Array, start: number, value: unknown): number {
    const slots = this.#spread(value);
    const ops = this.#ops;
    let at = start;
    for (let i = 0; i < ops.length; i++) {
      const op = ops[i]!;
      if (op >= ANY && op <= ACTOR) {
        const number = slots[i] as number;
        if (!holds(op, number)) this.#refuse(i, number);
        view.setFloat64(at, number, true);
        at += 8;
      } else if (op === U32 || op === GPU) {
        const number = slots[i] as number;
        if (number >>> 0 !== number || (op === GPU && number >= GPUS_MAX)) this.#refuse(i, number);
        view.setUint32(at, number, true);
        at += 4;
      } else at = this.#writeRare(i, op, slots[i], view, bytes, at);
    }
    return at;
  }

  #writeRare(i: number, op: number, member: unknown, view: DataView, bytes: Uint8Array, at: number): number {
    switch (op) {
      case U8:
        if (((member as number) & 0xff) !== member) this.#refuse(i, member);
        view.setUint8(at, member);
        return at + 1;
      case U16:
        if (((member as number) & 0xffff) !== member) this.#refuse(i, member);
        view.setUint16(at, member, true);
        return at + 2;
      case FLAG:
        if (typeof member !== "boolean") this.#refuse(i, member);
        view.setUint8(at, member ? 1 : 0);
        return at + 1;
      case TOKEN:
        if ((member as Uint8Array).byteLength !== TOKEN_BYTES) this.#refuse(i, member);
        bytes.set(member as Uint8Array, at);
        return at + TOKEN_BYTES;
      case TEXT: {
        const { written } = encoder.encodeInto(member as string, bytes.subarray(at + 2));
        if (written > 0xffff) this.#refuse(i, `${written} bytes of text`);
        view.setUint16(at, written, true);
        return at + 2 + written;
      }
      default: {
        const items = member as unknown[];
        view.setUint32(at, items.length, true);
        let end = at + 4;
        const layout = this.#items[i]!;
        for (let k = 0; k < items.length; k++) end = layout.write(view, bytes, end, items[k]);
        return end;
      }
    }
  }

  #refuse(i: number, value: unknown): never {
    throw new AssertionError(`${this.#names[i]}: ${String(value)} can't be sent`);
  }

  /** Reads one record from cursor.at; undefined (and cursor.fault) if it is malformed. */
  read(cursor: RecordCursor): unknown {
    const { view } = cursor;
    const slots = this.#slots;
    const ops = this.#ops;
    let count = ops.length;
    let room = cursor.end - cursor.at - this.bytesMin;
    if (room < 0) {
      if (room !== -OP_BYTES[LIST]! || !this.#endsWithAdded) return cursor.fail("ends early");
      slots[--count] = []; // LAYOUT-3
      room = 0;
    }
    // The least bytes of all fields are there. Only text and lists can take more than theirs, and they check that
    // themselves.
    let { at } = cursor;
    for (let i = 0; i < count; i++) {
      const op = ops[i]!;
      if (op >= ANY && op <= ACTOR) {
        const number = view.getFloat64(at, true);
        if (!holds(op, number)) return cursor.fail(`${this.#names[i]} is ${number}`);
        slots[i] = number;
        at += 8;
      } else if (op === U32) {
        slots[i] = view.getUint32(at, true);
        at += 4;
      } else {
        const { end } = cursor;
        const own = at + OP_BYTES[op]!;
        cursor.at = own;
        cursor.end = own + room; // the fields after it keep their least bytes
        const member = this.#readRare(i, op, cursor, at);
        if (member === undefined) return undefined;
        slots[i] = member;
        at = cursor.at;
        room -= at - own;
        cursor.end = end;
      }
    }
    cursor.at = at;
    return this.#gather();
  }

  #readRare(i: number, op: number, cursor: RecordCursor, at: number): unknown {
    const { view } = cursor;
    switch (op) {
      case U8:
        return view.getUint8(at);
      case U16:
        return view.getUint16(at, true);
      case GPU: {
        const gpu = view.getUint32(at, true);
        return gpu < GPUS_MAX ? gpu : cursor.fail(`${this.#names[i]} is ${gpu}`);
      }
      case FLAG: {
        const flag = view.getUint8(at);
        return flag < 2 ? flag === 1 : cursor.fail(`${this.#names[i]} is ${flag}`);
      }
      case TOKEN: {
        const token = new Uint8Array(TOKEN_BYTES); // a copy: frames are borrowed
        token.set(cursor.bytes.subarray(at, at + TOKEN_BYTES));
        return token;
      }
      case TEXT: {
        const end = cursor.at + view.getUint16(at, true);
        if (end > cursor.end) return cursor.fail(`${this.#names[i]} ends early`);
        const text = decoder.decode(cursor.bytes.subarray(cursor.at, end));
        cursor.at = end;
        return text;
      }
      default:
        return this.#readList(i, cursor, view.getUint32(at, true));
    }
  }

  #readList(i: number, cursor: RecordCursor, count: number): unknown[] | undefined {
    const layout = this.#items[i]!;
    if (count * layout.bytesMin > cursor.end - cursor.at)
      return cursor.fail(`${this.#names[i]} can't have ${count} items`);
    const items: unknown[] = [];
    for (let k = 0; k < count; k++) {
      const item = layout.read(cursor);
      if (item === undefined) return undefined;
      items.push(item);
    }
    return items;
  }
}

/** A reader's position in a frame, and the fault that stopped it. */
export class RecordCursor {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  at = 0;
  end = 0;
  fault = "";

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  fail(fault: string): undefined {
    this.fault = fault;
    return undefined;
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

const layouts = new WeakMap<Fields, RecordLayout>();
export function layoutOf(fields: Fields): RecordLayout {
  let layout = layouts.get(fields);
  if (layout === undefined) layouts.set(fields, (layout = new RecordLayout(fields)));
  return layout;
}
