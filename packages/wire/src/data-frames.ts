/**
 * Frames of the data plane, the same over TCP and NATS. All numbers are little-endian. Every part is a multiple of 8
 * bytes, so that in a stream that starts aligned every row and every output is aligned.
 *
 *   frame = u16 magic · u8 version · u8 kind · u32 headerBytes · u32 bodyBytes · u32 correlation · header · body
 *
 * The body is rows or outputs one after another, each padded to a multiple of 8. It stays apart from the head until it
 * is written, so that a socket can write it without a copy.
 *
 *   FRAME-1. Lengths are checked before use, and no claim in a frame makes a reader allocate more than the frame has
 *            bytes.
 */
import {
  type PullRequest,
  type PulledItem,
  type ResultBatch,
  type ResultItem,
  alignTo8,
  codeNumber,
} from "@tutti/protocol";
import { HeadWriter } from "./frame-cursor.ts";

export const DATA_PREFIX_BYTES = 16;
/** Largest frame. A frame holds at least one row or one set of outputs, so this is also their limit. */
export const DATA_FRAME_BYTES_MAX = 67_108_864;
/**
 * Approximate size of the frames into which runs of items are cut. So a large batch needs no large buffer at the other
 * end.
 */
export const DATA_RUN_BYTES = 16_777_216;

export const DATA_MAGIC = 0x4454; // "TD"
export const DATA_VERSION = 1;
export const DATA_KINDS = ["", "hello", "welcome", "pull", "reply", "results", "fragment"] as const;
const KIND = { hello: 1, welcome: 2, pull: 3, reply: 4, results: 5, fragment: 6 } as const;
/** Length that stands for "no row" and "no outputs", whose length may be 0. */
export const DATA_ABSENT = 0xffff_ffff;
const TEXT_LENGTH_MAX = 1_024;

/** A frame before it is written: `head`, then the segments of `body`, which include the padding. */
export interface DataFrame {
  readonly head: Uint8Array;
  readonly body: readonly Uint8Array[];
  readonly byteLength: number;
}

/** The executor sends its id and the id of the expected ingress: a port may have passed to another ingress. */
export interface HelloFrame {
  readonly kind: "hello";
  readonly executor: number;
  readonly ingress: number;
  /** Proof that the sender knows the ingress' secret: TOKEN_BYTES, or none from a release that had no proofs. */
  readonly proof: Uint8Array;
}
export interface WelcomeFrame {
  readonly kind: "welcome";
  readonly ingress: number;
  readonly proof: Uint8Array;
}
export interface PullFrame {
  readonly kind: "pull";
  readonly correlation: number;
  readonly pull: PullRequest;
}
/** A run of the items of one pull: `first` is its first one's place among `total`. */
export interface ReplyFrame {
  readonly kind: "reply";
  readonly correlation: number;
  readonly forbidden: boolean;
  readonly first: number;
  readonly total: number;
  /** Items; rows are views of the frame. */
  readonly items: readonly PulledItem[];
}
export interface ResultsFrame {
  readonly kind: "results";
  /** Results; outputs are views of the frame. */
  readonly results: ResultBatch;
}
/** A piece of a frame that is larger than one message of the carrier. (sender, correlation) identifies the frame. */
export interface FragmentFrame {
  readonly kind: "fragment";
  readonly sender: number;
  readonly correlation: number;
  readonly offset: number;
  readonly total: number;
  readonly piece: Uint8Array;
}
export type DecodedFrame = HelloFrame | WelcomeFrame | PullFrame | ReplyFrame | ResultsFrame | FragmentFrame;

// ---- writing

export function encodeHello(executor: number, ingress: number, proof: Uint8Array): DataFrame {
  const head = new HeadWriter(DATA_PREFIX_BYTES + 16 + proof.byteLength);
  return finish(head.f64(executor).f64(ingress).bytes(proof), "hello", 0, []);
}

export function encodeWelcome(ingress: number, proof: Uint8Array): DataFrame {
  return finish(new HeadWriter(DATA_PREFIX_BYTES + 8 + proof.byteLength).f64(ingress).bytes(proof), "welcome", 0, []);
}

/** Encodes a pull in one allocation: it has no body. */
export function encodePull(pull: PullRequest, correlation: number): DataFrame {
  const head = new HeadWriter(DATA_PREFIX_BYTES + 56 + 8 * pull.seqs.length);
  head.f64(pull.executor).f64(pull.batcher).f64(pull.batchId).u32(pull.gpu).u32(pull.thread).bytes(pull.token);
  head.u32(pull.seqs.length).u32(0);
  for (let i = 0; i < pull.seqs.length; i++) head.f64(pull.seqs[i]!);
  return finish(head, "pull", correlation, []);
}

/**
 * Encodes the answer to a pull, `undefined` = forbidden, in as many frames as its bytes need. Rows are referred to, not
 * copied. A row that no frame can hold is sent as absent.
 */
export function encodeReply(
  items: readonly PulledItem[] | undefined,
  correlation: number,
  runBytes = DATA_RUN_BYTES,
): DataFrame[] {
  if (items === undefined)
    return [finish(new HeadWriter(DATA_PREFIX_BYTES + 16).u32(1).u32(0).u32(0).u32(0), "reply", correlation, [])];
  const frames: DataFrame[] = [];
  let first = 0;
  do {
    const end = runEnd(items, first, runBytes, ({ row }) => row?.byteLength ?? 0);
    frames.push(replyRun(items, first, end, correlation));
    first = end;
  } while (first < items.length);
  return frames;
}

function replyRun(items: readonly PulledItem[], first: number, end: number, correlation: number): DataFrame {
  let traceLength = 0;
  for (let i = first; i < end; i++) traceLength += items[i]!.traceparent.length;
  const head = new HeadWriter(DATA_PREFIX_BYTES + 16 + 16 * (end - first) + 3 * traceLength);
  head
    .u32(0)
    .u32(first)
    .u32(end - first)
    .u32(items.length);
  const body: Uint8Array[] = [];
  for (let i = first; i < end; i++) {
    const { seq, row, traceparent } = items[i]!;
    const sent = row !== undefined && row.byteLength <= SEGMENT_BYTES_MAX ? row : undefined;
    head
      .f64(seq)
      .u32(sent === undefined ? DATA_ABSENT : sent.byteLength)
      .u32(textBytes(traceparent));
    if (sent !== undefined) addSegment(body, sent);
  }
  for (let i = first; i < end; i++) head.text(items[i]!.traceparent.slice(0, TEXT_LENGTH_MAX));
  return finish(head, "reply", correlation, body);
}

/** Results in as many frames as their bytes need, each a whole ResultBatch. Outputs are referred to, not copied. */
export function encodeResults(results: ResultBatch, runBytes = DATA_RUN_BYTES): DataFrame[] {
  const frames: DataFrame[] = [];
  const { items } = results;
  let first = 0;
  do {
    const end = runEnd(items, first, runBytes, ({ outputs }) => outputs?.byteLength ?? 0);
    frames.push(resultsRun(results, items.slice(first, end).map(sendable)));
    first = end;
  } while (first < items.length);
  return frames;
}

function resultsRun(results: ResultBatch, items: readonly ResultItem[]): DataFrame {
  let textLength = 0;
  for (const { text } of items) textLength += text.length;
  const trace = (results.trace ?? "").slice(0, TEXT_LENGTH_MAX);
  textLength += trace.length;
  const head = new HeadWriter(DATA_PREFIX_BYTES + 80 + 24 * items.length + 3 * textLength);
  head.f64(results.executor).f64(results.batcher).f64(results.batchId);
  head.f64(results.startedAt).f64(results.finishedAt).f64(results.run);
  head.u32(results.gpu).u32(results.thread).bytes(results.token).u32(results.batchSize).u32(items.length);
  const body: Uint8Array[] = [];
  for (const [i, { seq, outputs, code, text }] of items.entries()) {
    head
      .f64(seq)
      .u32(outputs === undefined ? DATA_ABSENT : outputs.byteLength)
      .u32(textBytes(text))
      .u32(code)
      // The trace belongs to the batch. It follows the texts, and the first item holds its length, so that a reader
      // that doesn't know it skips both.
      .u32(i === 0 ? textBytes(trace) : 0);
    if (outputs !== undefined) addSegment(body, outputs);
  }
  for (const { text } of items) head.text(text.slice(0, TEXT_LENGTH_MAX));
  if (items.length > 0) head.text(trace);
  return finish(head, "results", 0, body);
}

const SEGMENT_BYTES_MAX = DATA_FRAME_BYTES_MAX / 2;
function sendable(item: ResultItem): ResultItem {
  const bytes = item.outputs?.byteLength ?? 0;
  if (bytes <= SEGMENT_BYTES_MAX) return item;
  const text = `the outputs have ${bytes} bytes, the data plane takes ${SEGMENT_BYTES_MAX}`;
  return { seq: item.seq, outputs: undefined, code: codeNumber("TUTTI_TOO_LARGE"), text };
}

/**
 * End of a run that starts at `first`. It ends before the item that would take it past `runBytes`, but has at least
 * one.
 */
function runEnd<T>(items: readonly T[], first: number, runBytes: number, bytesOf: (item: T) => number): number {
  let bytes = 0;
  let end = first;
  while (end < items.length) {
    bytes += bytesOf(items[end]!);
    if (bytes > runBytes && end > first) break;
    end++;
  }
  return end;
}

const PADDING = Array.from({ length: 8 }, (_, bytes) => new Uint8Array(bytes));
function addSegment(body: Uint8Array[], segment: Uint8Array): void {
  if (segment.byteLength > 0) body.push(segment);
  const padding = alignTo8(segment.byteLength) - segment.byteLength;
  if (padding > 0) body.push(PADDING[padding]!);
}

const encoder = new TextEncoder();
const textBytes = (text: string): number =>
  text === "" ? 0 : encoder.encode(text.slice(0, TEXT_LENGTH_MAX)).byteLength;

function finish(
  writer: HeadWriter,
  kind: keyof typeof KIND,
  correlation: number,
  body: readonly Uint8Array[],
): DataFrame {
  const head = writer.end();
  let bodyBytes = 0;
  for (const segment of body) bodyBytes += segment.byteLength;
  const { view } = writer;
  view.setUint16(0, DATA_MAGIC, true);
  view.setUint8(2, DATA_VERSION);
  view.setUint8(3, KIND[kind]);
  view.setUint32(4, head.byteLength - DATA_PREFIX_BYTES, true);
  view.setUint32(8, bodyBytes, true);
  view.setUint32(12, correlation, true);
  return { head, body, byteLength: head.byteLength + bodyBytes };
}

/** The frame in one piece, freshly allocated unless it has no body. */
export function joinFrame(frame: DataFrame): Uint8Array {
  if (frame.body.length === 0) return frame.head;
  const joined = new Uint8Array(frame.byteLength);
  writeFrame(frame, joined, 0);
  return joined;
}

/** Copies the frame to `target` at `at`. @returns the end */
export function writeFrame(frame: DataFrame, target: Uint8Array, at: number): number {
  target.set(frame.head, at);
  let end = at + frame.head.byteLength;
  for (const segment of frame.body) {
    target.set(segment, end);
    end += segment.byteLength;
  }
  return end;
}

/** The frame as fragments of at most `bytesMax` bytes each, for carriers whose messages are bounded. */
export function encodeFragments(frame: DataFrame, sender: number, correlation: number, bytesMax: number): Uint8Array[] {
  const whole = joinFrame(frame);
  const overhead = DATA_PREFIX_BYTES + 16;
  const pieceBytes = Math.floor((bytesMax - overhead) / 8) * 8;
  const fragments: Uint8Array[] = [];
  for (let offset = 0; offset < whole.byteLength; offset += pieceBytes) {
    const piece = whole.subarray(offset, offset + pieceBytes);
    const head = new HeadWriter(overhead).f64(sender).u32(offset).u32(whole.byteLength);
    fragments.push(joinFrame(finish(head, "fragment", correlation, [piece])));
  }
  return fragments;
}

// ---- reading
