import { type PullRequest, type PulledItem, type ResultBatch, type ResultItem, TOKEN_BYTES } from "@tutti/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  type DataFrame,
  type DecodedFrame,
  type FrameFault,
  decodeFrame,
  encodeFragments,
  encodeHello,
  encodePull,
  encodeReply,
  encodeResults,
  encodeWelcome,
  frameBytesAt,
  isFrameFault,
  joinFrame,
} from "./index.ts";

const actor = fc.integer({ min: 1, max: 2 ** 48 - 1 });
const seq = fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER });
const u32 = fc.nat(0xffff_ffff);
const token = fc.uint8Array({ minLength: 16, maxLength: 16 });
const record = <T>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> =>
  fc.record(model, { noNullPrototype: true });
const bytes = fc.option(fc.uint8Array({ maxLength: 100 }), { nil: undefined });
const text = fc.oneof(fc.constant(""), fc.string({ maxLength: 60, unit: "grapheme" }));

const pullRequest = record<PullRequest>({
  executor: actor,
  gpu: fc.nat(65_535),
  thread: u32,
  batchId: fc.maxSafeNat(),
  batcher: actor,
  token,
  seqs: fc.array(seq, { maxLength: 40 }),
});
const pulledItems = fc.array(record<PulledItem>({ seq, row: bytes, traceparent: text }), { maxLength: 20 });
const resultBatch = record<ResultBatch>({
  executor: actor,
  gpu: fc.nat(65_535),
  thread: u32,
  batchId: fc.maxSafeNat(),
  batcher: actor,
  token,
  batchSize: fc.nat(1_024),
  startedAt: fc.maxSafeNat() as never,
  finishedAt: fc.maxSafeNat() as never,
  run: fc.maxSafeNat() as never,
  items: fc.array(record<ResultItem>({ seq, outputs: bytes, code: fc.nat(20), text }), { maxLength: 20 }),
});

function received(frame: DataFrame): DecodedFrame {
  const joined = joinFrame(frame);
  expect([joined.byteLength, joined.byteLength % 8]).toEqual([frame.byteLength, 0]);
  expect(frameBytesAt(joined, 0, joined.byteLength)).toBe(joined.byteLength);
  const decoded = decodeFrame(joined);
  if (isFrameFault(decoded)) throw new Error(decoded.fault);
  return decoded;
}

test("pulls, hellos and welcomes come back as they were", () => {
  fc.assert(
    fc.property(
      pullRequest,
      u32,
      actor,
      actor,
      fc.option(token, { nil: new Uint8Array(0) }),
      (pull, correlation, executor, ingress, proof) => {
        expect(received(encodePull(pull, correlation))).toEqual({ kind: "pull", correlation, pull });
        expect(received(encodeHello(executor, ingress, proof))).toEqual({ kind: "hello", executor, ingress, proof });
        expect(received(encodeWelcome(ingress, proof))).toEqual({ kind: "welcome", ingress, proof });
      },
    ),
  );
});

test("the trace of a batch comes with its results, and a reader that knows of none reads the rest all the same", () => {
  fc.assert(
    fc.property(resultBatch, text, (results, trace) => {
      const [frame] = encodeResults({ ...results, trace });
      const plain = encodeResults(results)[0]!;
      const sent = trace === "" || results.items.length === 0 ? results : { ...results, trace };
      expect(received(frame!)).toEqual({ kind: "results", results: sent });
      expect(received(plain)).toEqual({ kind: "results", results });
    }),
  );
});

test("the runs of a reply join to the items that were sent, each row at a multiple of 8", () => {
  fc.assert(
    fc.property(pulledItems, u32, fc.integer({ min: 1, max: 500 }), (items, correlation, runBytes) => {
      const joined: PulledItem[] = [];
      for (const frame of encodeReply(items, correlation, runBytes)) {
        const reply = received(frame);
        if (reply.kind !== "reply") throw new Error(reply.kind);
        expect([reply.correlation, reply.forbidden, reply.first, reply.total]).toEqual([
          correlation,
          false,
          joined.length,
          items.length,
        ]);
        for (const { row } of reply.items) expect((row?.byteOffset ?? 0) % 8).toBe(0);
        joined.push(...reply.items);
      }
      expect(joined).toEqual(items);
    }),
  );
});

test("a forbidden pull is told as such", () => {
  expect(received(encodeReply(undefined, 7)[0]!)).toMatchObject({ kind: "reply", correlation: 7, forbidden: true });
});

test("the runs of results are whole batches whose items join to what was sent", () => {
  fc.assert(
    fc.property(resultBatch, fc.integer({ min: 1, max: 500 }), (results, runBytes) => {
      const joined: ResultItem[] = [];
      for (const frame of encodeResults(results, runBytes)) {
        const decoded = received(frame);
        if (decoded.kind !== "results") throw new Error(decoded.kind);
        expect({ ...decoded.results, items: [] }).toEqual({ ...results, items: [] });
        joined.push(...decoded.results.items);
      }
      expect(joined).toEqual(results.items);
    }),
  );
});

test("fragments within the carrier's limit join to the frame", () => {
  fc.assert(
    fc.property(pulledItems, fc.integer({ min: 40, max: 400 }), (items, bytesMax) => {
      const frame = encodeReply(items, 3)[0]!;
      const joined = new Uint8Array(frame.byteLength);
      for (const message of encodeFragments(frame, 5, 9, bytesMax)) {
        expect(message.byteLength).toBeLessThanOrEqual(bytesMax);
        const fragment = decodeFrame(message);
        if (isFrameFault(fragment) || fragment.kind !== "fragment") throw new Error("no fragment");
        expect([fragment.sender, fragment.correlation, fragment.total]).toEqual([5, 9, frame.byteLength]);
        joined.set(fragment.piece, fragment.offset);
      }
      expect(joined).toEqual(joinFrame(frame));
    }),
  );
});

test("bytes of any kind, and frames changed or cut anywhere, are faults or members in range, never exceptions", () => {
  const whole = fc
    .tuple(pullRequest, pulledItems, resultBatch, fc.nat(2))
    .map(([pull, items, results, which]) =>
      joinFrame([encodePull(pull, 1), encodeReply(items, 2)[0]!, encodeResults(results)[0]!][which]!),
    );
  const changed = fc
    .tuple(whole, fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 6 }), fc.nat(10))
    .map(([frame, edits, keep]) => {
      for (const [at, byte] of edits) frame[at % frame.byteLength] = byte;
      return keep === 0 ? frame.subarray(0, frame.byteLength >> 1) : frame;
    });
  fc.assert(
    fc.property(fc.oneof(fc.uint8Array({ maxLength: 120 }), changed), (frame) => {
      inRange(decodeFrame(frame), frame);
      const length = frameBytesAt(frame, 0, frame.byteLength);
      expect(length === -1 || (length >= 0 && length <= 67_108_864)).toBe(true);
    }),
    { numRuns: 1_000 },
  );
});

function inRange(decoded: DecodedFrame | FrameFault, frame: Uint8Array): void {
  if (isFrameFault(decoded)) return;
  const within = (view: Uint8Array | undefined): void => {
    if (view === undefined) return;
    expect(view.byteOffset).toBeGreaterThanOrEqual(frame.byteOffset);
    expect(view.byteOffset + view.byteLength).toBeLessThanOrEqual(frame.byteOffset + frame.byteLength);
  };
  const isSeq = (value: number): void => expect(Number.isSafeInteger(value) && value > 0).toBe(true);
  if (decoded.kind === "pull") decoded.pull.seqs.forEach(isSeq);
  if (decoded.kind === "reply") {
    expect(decoded.first + decoded.items.length).toBeLessThanOrEqual(decoded.total);
    for (const item of decoded.items) {
      isSeq(item.seq);
      within(item.row);
    }
  }
  if (decoded.kind === "results") for (const item of decoded.results.items) within(item.outputs);
}

test("a frame that claims more than the limit is none", () => {
  const frame = joinFrame(encodeWelcome(5, new Uint8Array(TOKEN_BYTES))).slice();
  new DataView(frame.buffer).setUint32(8, 0x7fff_fff8, true);
  expect(frameBytesAt(frame, 0, frame.byteLength)).toBe(-1);
  expect(frameBytesAt(frame, 0, 15)).toBe(0);
});
