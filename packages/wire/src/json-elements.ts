/** Elements of tensors as JSON: values, and their text. */
import { type DataType, bytesOf } from "@tutti/protocol";
import { fromHalf } from "./half.ts";

/**
 * Converts elements to flat JSON values, which `bytesFromJson` accepts. 64-bit integers that a double can't hold and
 * non-finite floats become strings.
 */
export function jsonFromBytes(type: DataType, data: Uint8Array): (number | boolean | string)[] {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const width = bytesOf(type);
  const count = data.byteLength / width;
  const elements = new Array<number | boolean | string>(count);
  if (type === "FP32") for (let i = 0; i < count; i++) elements[i] = shortest(view.getFloat32(4 * i, true));
  else for (let i = 0; i < count; i++) elements[i] = elementAt(type, view, i * width);
  return elements;
}

function elementAt(type: DataType, view: DataView, at: number): number | boolean | string {
  switch (type) {
    case "FP32":
      return finite(view.getFloat32(at, true));
    case "FP64":
      return finite(view.getFloat64(at, true));
    case "FP16":
      return finite(fromHalf(view.getUint16(at, true)));
    case "BOOL":
      return view.getUint8(at) !== 0;
    case "UINT8":
      return view.getUint8(at);
    case "INT8":
      return view.getInt8(at);
    case "UINT16":
      return view.getUint16(at, true);
    case "INT16":
      return view.getInt16(at, true);
    case "UINT32":
      return view.getUint32(at, true);
    case "INT32":
      return view.getInt32(at, true);
    case "INT64":
      return narrow(view.getBigInt64(at, true));
    case "UINT64":
      return narrow(view.getBigUint64(at, true));
  }
}

const finite = (value: number): number | string => (Number.isFinite(value) ? value : String(value));
const narrow = (value: bigint): number | string =>
  value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value.toString();
const POWERS_OF_TEN = Array.from({ length: 23 }, (_, exponent) => 10 ** exponent);
/** JavaScript writes numbers from here on, and below 1e9, without an exponent. */
const PLAIN_LEAST = 1e-6;

/**
 * The number with the fewest digits that rounds to this float32: 0.1 is sent as 0.1, not as 0.10000000149011612. Nine
 * digits are always enough. A whole number of at most nine digits divided by a power of ten that a double holds exactly
 * is the double nearest to that decimal, so it can be found without text.
 */
function shortest(value: number): number | string {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size < 1e-12 || size >= 1e9) return shortestByText(value);
  const exponent = exponentOf(size);
  for (let digits = 6; digits <= 9; digits++) {
    const places = digits - 1 - exponent;
    const short = numberOf(wholeOf(value, places), places);
    if (Math.fround(short) === value) return short;
  }
  return shortestByText(value);
}

/** @param size - 1e-12 to 1e9 */
function exponentOf(size: number): number {
  let exponent = 0;
  if (size >= 1) while (size >= POWERS_OF_TEN[exponent + 1]!) exponent++;
  else while (size * POWERS_OF_TEN[-exponent]! < 1) exponent--;
  return exponent;
}
/** A tie goes to the greater number, as in the Python client. */
const wholeOf = (value: number, places: number): number =>
  Math.round(places < 0 ? value / POWERS_OF_TEN[-places]! : value * POWERS_OF_TEN[places]!);
const numberOf = (whole: number, places: number): number =>
  places < 0 ? whole * POWERS_OF_TEN[-places]! : whole / POWERS_OF_TEN[places]!;

function shortestByText(value: number): number {
  for (let digits = 6; digits <= 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return value;
}

/** Length of the longest double, with a comma. */
const FLOAT_LENGTH = 26;
const [COMMA, MINUS, POINT, ZERO] = [0x2c, 0x2d, 0x2e, 0x30];
const decoder = new TextDecoder();
/** Room for a piece of the text that is being written. */
const KEPT = new Uint8Array(32_768);

/** Text of the elements as one JSON list: that of `jsonFromBytes`, found digit by digit for FP32. */
export function jsonTextOf(type: DataType, data: Uint8Array): string {
  if (type !== "FP32") return JSON.stringify(jsonFromBytes(type, data));
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  let pieces = "[";
  let end = 0;
  for (let at = 0; at < data.byteLength; at += 4) {
    if (end + FLOAT_LENGTH > KEPT.byteLength) {
      pieces += decoder.decode(KEPT.subarray(0, end));
      end = 0;
    }
    if (at > 0) KEPT[end++] = COMMA;
    end = putFloat(KEPT, end, view.getFloat32(at, true));
  }
  return `${pieces}${decoder.decode(KEPT.subarray(0, end))}]`;
}

/** As `shortest`, but writes the digits of its whole number. @returns the end of the text */
function putFloat(text: Uint8Array, end: number, value: number): number {
  const size = Math.abs(value);
  if (!(size >= PLAIN_LEAST && size < 1e9)) return putText(text, end, JSON.stringify(shortest(value)));
  const exponent = exponentOf(size);
  for (let digits = 6; digits <= 9; digits++) {
    const places = digits - 1 - exponent;
    const whole = wholeOf(value, places);
    const short = numberOf(whole, places);
    if (Math.fround(short) !== value) continue;
    if (value < 0) text[end++] = MINUS;
    return places < 0 ? putDecimal(text, end, Math.abs(short), 0) : putDecimal(text, end, Math.abs(whole), places);
  }
  return putText(text, end, JSON.stringify(shortestByText(value)));
}

function putText(text: Uint8Array, end: number, ascii: string): number {
  for (let i = 0; i < ascii.length; i++) text[end + i] = ascii.charCodeAt(i);
  return end + ascii.length;
}

/** Writes `whole / 10 ** places` without zeros at its end. @param whole - 1 to 2^31 - 1 @returns the end of the text */
function putDecimal(text: Uint8Array, start: number, whole: number, places: number): number {
  let [rest, left] = [whole | 0, places];
  while (left > 0 && rest % 10 === 0) {
    rest = (rest / 10) | 0;
    left--;
  }
  let digits = left + 1;
  while (rest >= POWERS_OF_TEN[digits]!) digits++;
  const end = start + digits + (left > 0 ? 1 : 0);
  let at = end;
  for (let place = 0; place < digits; place++) {
    if (place === left && left > 0) text[--at] = POINT;
    const next = (rest / 10) | 0;
    text[--at] = ZERO + rest - 10 * next;
    rest = next;
  }
  return end;
}
