/** Reads frames of the data plane (data-frames.ts). Bytes come from outside: nothing here throws or over-allocates. */
import { BATCH_SIZE_MAX, type PullRequest, type PulledItem, type ResultBatch, type ResultItem } from "@tutti/protocol";
import {
  DATA_FRAME_BYTES_MAX,
  DATA_KINDS,
  DATA_MAGIC,
  DATA_PREFIX_BYTES,
  DATA_VERSION,
  type DecodedFrame,
  type FragmentFrame,
  type ReplyFrame,
} from "./data-frames.ts";
import { FrameCursor } from "./frame-cursor.ts";
import type { FrameFault } from "./frame.ts";

/**
 * Length of the frame that starts at `at`, of which `available` bytes are there.
 * @returns 0 while the prefix is incomplete; −1 if this can't be a frame
 */
export function frameBytesAt(bytes: Uint8Array, at: number, available: number): number {
  if (available < DATA_PREFIX_BYTES) return 0;
  if (bytes[at] !== (DATA_MAGIC & 0xff) || bytes[at + 1] !== DATA_MAGIC >> 8 || bytes[at + 2] !== DATA_VERSION)
    return -1;
  const kind = bytes[at + 3]!;
  const headerBytes = u32At(bytes, at + 4);
  const bodyBytes = u32At(bytes, at + 8);
  if (kind === 0 || kind >= DATA_KINDS.length || ((headerBytes | bodyBytes) & 7) !== 0) return -1;
  const byteLength = DATA_PREFIX_BYTES + headerBytes + bodyBytes;
  return byteLength <= DATA_FRAME_BYTES_MAX ? byteLength : -1;
}

const u32At = (bytes: Uint8Array, at: number): number =>
  (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0;

/** Reads exactly one frame. It never throws; rows, outputs and pieces are views of `frame`. */
export function decodeFrame(frame: Uint8Array): DecodedFrame | FrameFault {
  const byteLength = frameBytesAt(frame, 0, frame.byteLength);
  if (byteLength !== frame.byteLength) return { fault: `${frame.byteLength} bytes are no frame of the data plane` };
  const headEnd = DATA_PREFIX_BYTES + u32At(frame, 4);
  const cursor = new FrameCursor(frame, DATA_PREFIX_BYTES, headEnd);
  const kind = DATA_KINDS[frame[3]!]!;
  const decoded = decodeKind(kind, cursor, u32At(frame, 12));
  if (cursor.fault !== "") return { fault: `${kind}: ${cursor.fault}` };
  return decoded ?? { fault: `${kind} is no kind of frame` };
}

function decodeKind(
  kind: (typeof DATA_KINDS)[number],
  cursor: FrameCursor,
  correlation: number,
): DecodedFrame | undefined {
  switch (kind) {
    case "hello":
      return { kind, executor: cursor.actor(), ingress: cursor.actor(), proof: proofIn(cursor) };
    case "welcome":
      return { kind, ingress: cursor.actor(), proof: proofIn(cursor) };
    case "pull":
      return { kind, correlation, pull: decodePull(cursor) };
    case "reply":
      return decodeReply(cursor, correlation);
    case "results":
      return { kind, results: decodeResults(cursor) };
    case "fragment":
      return decodeFragment(cursor, correlation);
    case "":
      return undefined;
  }
}

/** Releases before the proof end there: they are told why they are refused. */
const proofIn = (cursor: FrameCursor): Uint8Array => (cursor.left === 0 ? NOTHING : cursor.token());
const NOTHING = new Uint8Array(0);

function decodePull(cursor: FrameCursor): PullRequest {
  const executor = cursor.actor();
  const batcher = cursor.actor();
  const batchId = cursor.count();
  const gpu = cursor.gpu();
  const thread = cursor.u32();
  const token = cursor.token();
  const count = cursor.itemCount(8);
  const seqs: number[] = [];
  for (let i = 0; i < count; i++) seqs.push(cursor.seq());
  return { executor, gpu, thread, batchId, batcher, token, seqs };
}

function decodeReply(cursor: FrameCursor, correlation: number): ReplyFrame {
  const forbidden = cursor.u32() !== 0;
  const first = cursor.u32();
  const count = cursor.u32();
  const total = cursor.u32();
  if (total > BATCH_SIZE_MAX || first + count > total) cursor.fail(`items ${first} to ${first + count} of ${total}`);
  if (count * 16 > cursor.left) cursor.fail(`${count} items`);
  const items: PulledItem[] = [];
  let texts = cursor.at + 16 * count;
  for (let i = 0; i < count && cursor.fault === ""; i++) {
    const seq = cursor.seq();
    const row = cursor.segment(cursor.u32());
    const textLength = cursor.u32();
    const traceparent = cursor.textAt(texts, textLength);
    texts += textLength;
    items.push({ seq, row, traceparent });
  }
  return { kind: "reply", correlation, forbidden, first, total, items };
}

function decodeResults(cursor: FrameCursor): ResultBatch {
  const executor = cursor.actor();
  const batcher = cursor.actor();
  const batchId = cursor.count();
  const startedAt = cursor.count() as ResultBatch["startedAt"];
  const finishedAt = cursor.count() as ResultBatch["finishedAt"];
  const run = cursor.count() as ResultBatch["run"];
  const gpu = cursor.gpu();
  const thread = cursor.u32();
  const token = cursor.token();
  const batchSize = cursor.u32();
  const count = cursor.u32();
  if (count > BATCH_SIZE_MAX || count * 24 > cursor.left) cursor.fail(`${count} items`);
  const items: ResultItem[] = [];
  let texts = cursor.at + 24 * count;
  let traceLength = 0;
  for (let i = 0; i < count && cursor.fault === ""; i++) {
    const seq = cursor.seq();
    const outputs = cursor.segment(cursor.u32());
    const textLength = cursor.u32();
    const code = cursor.u32();
    const reserved = cursor.u32();
    if (i === 0) traceLength = reserved;
    const text = cursor.textAt(texts, textLength);
    texts += textLength;
    items.push({ seq, outputs, code, text });
  }
  const trace = cursor.textAt(texts, traceLength);
  const results = { executor, gpu, thread, batchId, batcher, token, batchSize, startedAt, finishedAt, run, items };
  return trace === "" ? results : { ...results, trace };
}

function decodeFragment(cursor: FrameCursor, correlation: number): FragmentFrame {
  const sender = cursor.actor();
  const offset = cursor.u32();
  const total = cursor.u32();
  const piece = cursor.rest();
  // An empty piece is refused: a frame could have any number of them.
  if (total > DATA_FRAME_BYTES_MAX || offset + piece.byteLength > total || piece.byteLength === 0)
    cursor.fail(`bytes ${offset} to ${offset + piece.byteLength} of ${total}`);
  return { kind: "fragment", sender, correlation, offset, total, piece };
}

export const isFrameFault = (decoded: DecodedFrame | FrameFault): decoded is FrameFault => "fault" in decoded;
