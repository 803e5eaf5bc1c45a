/** Reads as little of an answer as shows that it is complete and right. */
import type { AnswerForm } from "./load-plan.ts";

export interface Answer {
  readonly isOk: boolean;
  readonly body: Buffer;
  /** Where raw outputs begin within the body, behind JSON; the end of the body: there are none. */
  readonly rawAt: number;
}

export interface HttpAnswer extends Answer {
  /** Bytes of the buffer, head included. */
  readonly bytes: number;
}

const TOLERANCE = 1e-3;

/** The first HTTP answer in a buffer; undefined while it is incomplete. */
export function readHttpAnswer(buffer: Buffer): HttpAnswer | undefined {
  const headEnd = buffer.indexOf("\r\n\r\n");
  if (headEnd < 0) return undefined;
  const head = buffer.toString("latin1", 0, headEnd);
  const length = /\r\ncontent-length: *(\d+)/i.exec(head);
  const json = /\r\ninference-header-content-length: *(\d+)/i.exec(head);
  const bodyAt = headEnd + 4;
  const bytes = bodyAt + Number(length?.[1] ?? 0);
  if (buffer.byteLength < bytes) return undefined;
  const body = buffer.subarray(bodyAt, bytes);
  const rawAt = json === null ? body.byteLength : Number(json[1]);
  return { isOk: head.startsWith("200", 9), body, rawAt, bytes };
}

/** Whether an answer begins with the expected numbers. */
export function isRight({ body, rawAt }: Answer, form: AnswerForm, expected: readonly number[]): boolean {
  const given = numbersOf(body, form === "oip-binary" && rawAt === body.byteLength ? "json" : form, rawAt);
  return expected.every((value, i) => Math.abs(value - (given[i] ?? NaN)) <= TOLERANCE * Math.max(1, Math.abs(value)));
}

function numbersOf(body: Buffer, form: AnswerForm, rawAt: number): readonly number[] {
  switch (form) {
    case "json":
      return firstJsonRow(body.toString("latin1"));
    case "oip-binary":
      return floatsOf(body.subarray(rawAt));
    case "raw":
      return floatsOf(body);
    case "tensors":
      return floatsOf(firstTensor(body));
  }
}

/** The numbers after `"data":`, or else the first row of a bare array. */
function firstJsonRow(text: string): readonly number[] {
  const from = Math.max(0, text.indexOf('"data"'));
  const row = /\[\s*(-?\d[^\]]*)\]/.exec(text.slice(from));
  return row === null ? [] : row[1]!.split(",").map(Number);
}

function floatsOf(raw: Buffer): readonly number[] {
  return Array.from({ length: Math.min(8, raw.byteLength >> 2) }, (_, i) => raw.readFloatLE(4 * i));
}

/** Bytes of the first tensor of docs/messages.md's binary form. */
function firstTensor(body: Buffer): Buffer {
  const count = body.readUInt16LE(4);
  let at = 8;
  for (let i = 0; i < count; i++) at += 8 + 4 * body.readUInt8(at + 1) + body.readUInt16LE(at + 2);
  const dataAt = Math.ceil(at / 8) * 8;
  return body.subarray(dataAt, dataAt + body.readUInt32LE(12));
}
