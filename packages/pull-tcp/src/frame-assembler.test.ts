import { TOKEN_BYTES } from "@tutti/protocol";
import { encodeHello, encodeReply, joinFrame } from "@tutti/wire";
import fc from "fast-check";
import { expect, test } from "vitest";
import { FIRST_FRAME_BYTES_MAX, FrameAssembler } from "./frame-assembler.ts";
import { ReceiveBudget } from "./receive-budget.ts";

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

const BUDGET_BYTES = 134_217_728;
const KEPT_BYTES = 1_048_576;
const CHUNK_BYTES = 65_536;
function admitted(budget = new ReceiveBudget(BUDGET_BYTES)): { assembler: FrameAssembler; budget: ReceiveBudget } {
  const assembler = new FrameAssembler();
  assembler.admit(budget, KEPT_BYTES);
  return { assembler, budget };
}
/** As the socket does: it fills what space there is, then asks again. */
function fill(assembler: FrameAssembler, piece: Uint8Array, onFrame: (frame: Uint8Array) => boolean): boolean {
  for (let at = 0; at < piece.byteLength;) {
    const space = assembler.space();
    const part = piece.subarray(at, at + space.byteLength);
    space.set(part);
    at += part.byteLength;
    if (!assembler.filled(part.byteLength, onFrame)) return false;
  }
  return true;
}

test("however a stream is cut, the frames come out whole, in order, at multiples of 8 bytes", () => {
  fc.assert(
    fc.property(stream, cuts, fc.boolean(), (frames, lengths, inPlace) => {
      const { assembler } = admitted();
      const seen: Uint8Array[] = [];
      const onFrame = (bytes: Uint8Array): boolean => {
        if (inPlace) expect(bytes.byteOffset % 8).toBe(0);
        seen.push(new Uint8Array(bytes));
        return true;
      };
      for (const piece of pieces(frames, lengths))
        expect(inPlace ? fill(assembler, piece, onFrame) : assembler.take(piece, onFrame)).toBe(true);
      expect(seen.length).toBe(frames.length);
      frames.forEach((sent, i) => expect(Buffer.compare(sent, seen[i]!)).toBe(0));
    }),
    { numRuns: 60 },
  );
});

const large = (byteLength: number): Uint8Array =>
  joinFrame(encodeReply([{ seq: 1, row: new Uint8Array(byteLength).fill(9), traceparent: "" }], 1)[0]!);
const hello = joinFrame(encodeHello(5, 6, new Uint8Array(TOKEN_BYTES)));

test.each(["take", "fill"] as const)(
  "before it is admitted a peer holds 64 bytes, and is admitted by its first frame (%s)",
  (way) => {
    const give = (assembler: FrameAssembler, bytes: Uint8Array, onFrame: (frame: Uint8Array) => boolean): boolean =>
      way === "take" ? assembler.take(bytes, onFrame) : fill(assembler, bytes, onFrame);
    const pushy = new FrameAssembler();
    expect(give(pushy, large(5_000_000).subarray(0, 30), () => true)).toBe(false);
    expect(pushy.fault).toMatch(/it announces 50000\d\d bytes before it is admitted, 64 are the most/);
    expect(pushy.capacity).toBe(FIRST_FRAME_BYTES_MAX);
    expect(pushy.space().byteLength).toBe(FIRST_FRAME_BYTES_MAX);

    const garbage = new FrameAssembler();
    expect(give(garbage, new Uint8Array(16), () => true)).toBe(false);
    expect(garbage.fault).toBe("no frames");

    const { budget } = admitted();
    for (const cut of [1, 15, 16, 40, hello.byteLength, hello.byteLength + 7]) {
      const assembler = new FrameAssembler();
      const seen: number[] = [];
      const onFrame = (frame: Uint8Array): boolean => {
        if (seen.push(frame.byteLength) === 1) assembler.admit(budget, KEPT_BYTES);
        return true;
      };
      const bytes = Buffer.concat([hello, large(100_000), hello]);
      expect(give(assembler, bytes.subarray(0, cut), onFrame)).toBe(true);
      if (cut < hello.byteLength) expect(assembler.capacity).toBe(FIRST_FRAME_BYTES_MAX);
      expect(give(assembler, bytes.subarray(cut), onFrame)).toBe(true);
      expect(seen).toEqual([hello.byteLength, large(100_000).byteLength, hello.byteLength]);
    }
  },
);

test("a long frame gets its memory once, by its announced length, and gives it back afterwards", () => {
  const sent = large(5_000_000);
  const { assembler, budget } = admitted();
  const capacities = new Set<number>();
  let seen = false;
  for (const piece of pieces([sent], [16, 65_536])) {
    assembler.take(piece, (bytes) => (seen = Buffer.compare(bytes, sent) === 0));
    if (!seen) capacities.add(assembler.capacity);
  }
  expect(seen).toBe(true);
  const [whole = 0] = capacities;
  expect(capacities.size).toBe(1);
  expect(whole).toBeGreaterThan(sent.byteLength);
  expect(whole).toBeLessThan(sent.byteLength + 3 * CHUNK_BYTES);
  expect([assembler.capacity, budget.heldBytes]).toEqual([CHUNK_BYTES, 0]);
});

test("a frame for which no memory is left ends its stream, and one that is closed leaves its share to others", () => {
  const budget = new ReceiveBudget(12_000_000);
  const begun = large(5_000_000).subarray(0, 100);
  const [first, second, third] = [admitted(budget), admitted(budget), admitted(budget)];
  expect(first.assembler.take(begun, () => true)).toBe(true);
  expect(second.assembler.take(begun, () => true)).toBe(true);
  const held = budget.heldBytes;
  expect(third.assembler.take(begun, () => true)).toBe(false);
  expect(third.assembler.fault).toBe(`no memory is left for a frame of ${large(5_000_000).byteLength} bytes`);
  expect(budget.heldBytes).toBe(held);
  first.assembler.close();
  const fourth = admitted(budget);
  expect(fourth.assembler.take(begun, () => true)).toBe(true);
  for (const { assembler } of [second, third, fourth]) assembler.close();
  expect(budget.heldBytes).toBe(0);
});

test("the buffer of a frame of usual length is kept for the next, as long as half of the budget is left", () => {
  const budget = new ReceiveBudget(1_000_000);
  const all = Array.from({ length: 8 }, () => admitted(budget).assembler);
  for (const assembler of all)
    for (const piece of pieces([large(150_000)], [65_536])) assembler.take(piece, () => true);
  const kept = all.filter(({ capacity }) => capacity > CHUNK_BYTES);
  expect(kept.length).toBe(2);
  expect(budget.heldBytes).toBe(kept.reduce((sum, { capacity }) => sum + capacity - CHUNK_BYTES, 0));
});
