import { encodeReply, joinFrame } from "@tutti/wire";
import fc from "fast-check";
import { expect, test } from "vitest";
import { FrameAssembler } from "./frame-assembler.ts";

const frame = fc.array(fc.integer({ min: 0, max: 3_000 }), { maxLength: 4 }).map((lengths) =>
  joinFrame(
    encodeReply(
      lengths.map((length, i) => ({ seq: i + 1, row: new Uint8Array(length).fill(i + 1), traceparent: "" })),
      7,
    )[0]!,
  ),
);
const stream = fc.array(frame, { minLength: 1, maxLength: 40 });
const cuts = fc.array(fc.integer({ min: 1, max: 5_000 }), { minLength: 1, maxLength: 20 });

function* pieces(frames: readonly Uint8Array[], lengths: readonly number[]): Generator<Uint8Array> {
  const whole = Buffer.concat(frames);
  for (let at = 0, i = 0; at < whole.byteLength; i++) {
    const length = lengths[i % lengths.length]!;
    yield whole.subarray(at, at + length);
    at += length;
  }
}

test("however a stream is cut, the frames come out whole, in order, at multiples of 8 bytes", () => {
  fc.assert(
    fc.property(stream, cuts, fc.boolean(), (frames, lengths, inPlace) => {
      const assembler = new FrameAssembler();
      const seen: Uint8Array[] = [];
      const onFrame = (bytes: Uint8Array): boolean => {
        if (inPlace) expect(bytes.byteOffset % 8).toBe(0);
        seen.push(new Uint8Array(bytes));
        return true;
      };
      for (const piece of pieces(frames, lengths)) {
        if (!inPlace) expect(assembler.take(piece, onFrame)).toBe(true);
        // As the socket does: it fills what space there is, then asks again.
        for (let at = 0; inPlace && at < piece.byteLength;) {
          const space = assembler.space();
          const part = piece.subarray(at, at + space.byteLength);
          space.set(part);
          at += part.byteLength;
          expect(assembler.filled(part.byteLength, onFrame)).toBe(true);
        }
      }
      expect(seen.length).toBe(frames.length);
      frames.forEach((sent, i) => expect(Buffer.compare(sent, seen[i]!)).toBe(0));
    }),
    { numRuns: 60 },
  );
});

test("garbage is noticed by its first bytes, and a frame's claim alone takes no memory", () => {
  expect(new FrameAssembler().take(new Uint8Array(16), () => true)).toBe(false);
  const claims = joinFrame(encodeReply([], 1)[0]!).slice();
  new DataView(claims.buffer).setUint32(8, 60_000_000, true);
  const assembler = new FrameAssembler();
  expect(assembler.take(claims, () => true)).toBe(true);
  assembler.space();
  expect(assembler.capacity).toBeLessThan(1_300_000);
});

test("a large frame comes whole, and its memory is let go afterwards", () => {
  const row = new Uint8Array(5_000_000).fill(9);
  const sent = joinFrame(encodeReply([{ seq: 1, row, traceparent: "" }], 1)[0]!);
  const assembler = new FrameAssembler();
  let seen = false;
  for (const piece of pieces([sent], [65_536]))
    assembler.take(piece, (bytes) => {
      seen = Buffer.compare(bytes, sent) === 0;
      return true;
    });
  expect(seen).toBe(true);
  assembler.space();
  expect(assembler.capacity).toBe(65_536);
});
