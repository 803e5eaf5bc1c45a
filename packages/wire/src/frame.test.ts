import * as protocol from "@tutti/protocol";
import {
  BatchDispatched,
  type Field,
  type Fields,
  GpuFreed,
  Heartbeat,
  type MessageType,
  COST_MAX,
  RequestArrived,
  RequestWithdrawn,
  SIZE_HINT_MAX,
  field,
  message,
} from "@tutti/protocol";
import { type ActorKey, AssertionError, NEVER, actorKey } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { FrameReader, FrameWriter } from "./index.ts";
import { SHAPES } from "./record-shapes.ts";

const SENDER = actorKey(2 ** 47 + 12_345);
const isMessage = (value: unknown): value is MessageType<unknown> =>
  typeof value === "object" && value !== null && "tag" in value && "repair" in value;
const fixedTypes = Object.values<unknown>(protocol)
  .filter(isMessage)
  .filter((type) => type.fields !== undefined);

const count = fc.maxSafeNat();
const byField = new Map<Field<unknown>, fc.Arbitrary<unknown>>([
  [field.instant, fc.oneof(fc.maxSafeInteger(), fc.constantFrom(Infinity, -Infinity))],
  [field.micros, fc.oneof(count, fc.constant(Infinity))],
  [
    field.units,
    fc.double({ min: 0, max: SIZE_HINT_MAX, noNaN: true, noDefaultInfinity: true }).map((size) => size + 0),
  ],
  [field.cost, fc.double({ min: 0, max: COST_MAX, noNaN: true, noDefaultInfinity: true }).map((cost) => cost + 0)],
  [field.gpu, fc.nat(65_535)],
  [field.actor, fc.integer({ min: 1, max: 2 ** 48 - 1 })],
  [field.request, fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER })],
]);
function arbitraryField(of: Field<unknown>): fc.Arbitrary<unknown> {
  const known = byField.get(of);
  if (known !== undefined) return known;
  switch (of.kind) {
    case "u8":
      return fc.nat(255);
    case "u16":
      return fc.nat(65_535);
    case "u32":
      return fc.nat(0xffff_ffff);
    case "f64":
      return count;
    case "flag":
      return fc.boolean();
    case "token":
      return fc.uint8Array({ minLength: 16, maxLength: 16 });
    case "text":
      return fc.string({ maxLength: 40, unit: "grapheme" });
    case "list":
      return fc.array(arbitraryRecord(of.of!), { maxLength: 20 });
  }
}
const arbitraryRecord = (fields: Fields): fc.Arbitrary<Record<string, unknown>> =>
  fc.record(Object.fromEntries(Object.entries(fields).map(([name, of]) => [name, arbitraryField(of)])), {
    noNullPrototype: true,
  });
const arbitraryMessage = fc
  .constantFrom(...fixedTypes)
  .chain((type) => arbitraryRecord(type.fields!).map((value) => ({ type, value })));

function readAll(frame: Uint8Array) {
  const seen: { type: MessageType<unknown>; value: unknown; sender: ActorKey }[] = [];
  const reader = new FrameReader();
  for (const type of fixedTypes) reader.on(type, (value, sender) => seen.push({ type, value, sender }));
  const fault = reader.read(frame);
  return { seen, fault };
}

test("every fixed message comes back as it was, in order, whatever its values", () => {
  expect(fixedTypes.length).toBeGreaterThanOrEqual(13);
  const writer = new FrameWriter(SENDER);
  fc.assert(
    fc.property(fc.array(arbitraryMessage, { maxLength: 12 }), (messages) => {
      for (const { type, value } of messages) writer.add(type, value);
      expect(writer.recordCount).toBe(messages.length);
      const { byteLength } = writer;
      const frame = writer.take();
      expect([frame.byteLength, frame.byteLength % 8, writer.recordCount]).toEqual([byteLength, 0, 0]);
      const { seen, fault } = readAll(frame.slice());
      expect(fault).toBeUndefined();
      expect(seen).toEqual(messages.map(({ type, value }) => ({ type, value, sender: SENDER })));
    }),
  );
});

test("text of any length and script, and lists within lists, come back as they were", () => {
  const type = message({
    tag: 900,
    name: "probe",
    from: "a",
    to: "b",
    repair: "none",
    fields: { text: field.text, rows: field.list({ name: field.text, cells: field.list({ cell: field.word }) }) },
  });
  const cells = fc.array(fc.record({ cell: fc.nat() }, { noNullPrototype: true }), { maxLength: 5 });
  const text = fc.string({ unit: "binary", maxLength: 40 }).map((s) => s.toWellFormed());
  const rows = fc.array(fc.record({ name: text, cells }, { noNullPrototype: true }), { maxLength: 5 });
  fc.assert(
    fc.property(fc.record({ text, rows }, { noNullPrototype: true }), (value) => {
      const writer = new FrameWriter(SENDER);
      writer.add(type, value);
      let seen: unknown;
      expect(new FrameReader().on(type, (got) => (seen = got)).read(writer.take())).toBeUndefined();
      expect(seen).toEqual(value);
    }),
  );
});

test("the literals of the hot messages do what the loop over the fields' names does", () => {
  expect(SHAPES.size).toBeGreaterThanOrEqual(10);
  for (const [fields, shape] of SHAPES) {
    fc.assert(
      fc.property(arbitraryRecord(fields), (value) => {
        const names = Object.keys(fields);
        const slots: unknown[] = [];
        shape.spread(value, slots);
        expect(slots).toEqual(names.map((name) => value[name]));
        const gathered = shape.gather(slots as never[]);
        expect(gathered).toEqual(value);
        expect(Object.keys(gathered as object)).toEqual(names);
      }),
      { numRuns: 20 },
    );
  }
});

const arrived = (over: Partial<RequestArrived> = {}): RequestArrived =>
  ({
    thread: 64,
    app: 0xffff_ffff,
    term: 3,
    arrivalSeq: 17,
    seq: 99,
    arrivedAt: 1_700_000_000_000_000,
    deadline: NEVER,
    slo: 50_000,
    size: 0,
    priority: 1,
    units: 0,
    ...over,
  }) as RequestArrived;

function frameOf(...values: RequestArrived[]): Uint8Array {
  const writer = new FrameWriter(SENDER);
  for (const value of values) writer.add(RequestArrived, value);
  return writer.take().slice();
}

test("bytes of any kind give a fault or values in range, and never an exception", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      const { seen, fault } = readAll(bytes);
      expect(seen.length === 0 || fault === undefined || typeof fault.fault === "string").toBe(true);
    }),
  );
});

test("a frame that is cut short or changed anywhere never yields a member out of its range", () => {
  const frame = fc.array(arbitraryMessage, { minLength: 1, maxLength: 4 }).map((messages) => {
    const writer = new FrameWriter(SENDER);
    for (const { type, value } of messages) writer.add(type, value);
    return writer.take().slice();
  });
  const edits = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 6 });
  fc.assert(
    fc.property(frame, edits, fc.double({ min: 0, max: 1, noNaN: true }), (bytes, changes, keep) => {
      for (const [at, byte] of changes) bytes[at % bytes.byteLength] = byte;
      const cut = bytes.subarray(0, Math.ceil(bytes.byteLength * keep));
      const { seen } = readAll(cut);
      for (const { type, value } of seen) checkRecord(type.fields!, value as Record<string, unknown>);
    }),
    { numRuns: 500 },
  );
});

function checkRecord(fields: Fields, value: Record<string, unknown>): void {
  for (const [name, of] of Object.entries(fields)) {
    const member = value[name];
    if (of.kind === "list") for (const item of member as Record<string, unknown>[]) checkRecord(of.of!, item);
    else if (of.kind === "token") expect((member as Uint8Array).byteLength).toBe(16);
    else if (of.kind === "flag") expect(typeof member).toBe("boolean");
    else if (of.kind !== "text") {
      expect(member).not.toBeNaN();
      if (of === field.gpu) expect(member).toBeLessThan(65_536);
      if (of === field.actor) expect(member).toSatisfy((key: number) => key >= 1 && key < 2 ** 48 && key % 1 === 0);
      if (of === field.request) expect(Number.isSafeInteger(member) && (member as number) > 0).toBe(true);
      if (of === field.count) expect(Number.isSafeInteger(member) && (member as number) >= 0).toBe(true);
      if (of === field.micros) expect(member).toBeGreaterThanOrEqual(0);
    }
  }
}

test("a record with a member out of range is left out, told, and harms no other record of its frame", () => {
  const frame = frameOf(arrived({ arrivalSeq: 1 }), arrived({ arrivalSeq: 2 }), arrived({ arrivalSeq: 3 }));
  const recordBytes = (frame.byteLength - 16) / 3;
  const view = new DataView(frame.buffer, 16 + recordBytes + 8);
  view.setFloat64(8, NaN, true); // the term of the second
  const { seen, fault } = readAll(frame);
  expect(seen.map(({ value }) => (value as RequestArrived).arrivalSeq)).toEqual([1, 3]);
  expect(fault).toEqual({ fault: "request-arrived: term is NaN" });
});

test("a list that claims more items than there are bytes is a fault before anything is allocated", () => {
  const writer = new FrameWriter(SENDER);
  const batch = { ingresses: [], requests: [{ seq: 1 }] } as unknown as BatchDispatched;
  for (const name of Object.keys(BatchDispatched.fields!)) (batch as Record<string, unknown>)[name] ??= 1;
  writer.add(BatchDispatched, batch);
  const frame = writer.take().slice();
  new DataView(frame.buffer).setUint32(frame.byteLength - 12, 0xffff_ffff, true);
  const { seen, fault } = readAll(frame);
  expect([seen.length, fault?.fault]).toEqual([0, "batch-dispatched: requests can't have 4294967295 items"]);
});

test("records of unknown tags are skipped, and members that a newer writer appended are passed over", () => {
  const newer = message({
    tag: RequestWithdrawn.tag,
    name: "request-withdrawn",
    from: "ingress",
    to: "batcher",
    repair: "none",
    fields: { ...RequestWithdrawn.fields, reason: field.text },
  });
  const unknown = message({ tag: 4_000, name: "new", from: "a", to: "b", repair: "none", fields: { x: field.word } });
  const writer = new FrameWriter(SENDER);
  writer.add(unknown, { x: 1 });
  writer.add(newer, { thread: 64, seq: 5, reason: "changed my mind" } as never);
  writer.add(RequestArrived, arrived());
  const { seen, fault } = readAll(writer.take());
  expect(fault).toBeUndefined();
  expect(seen.map(({ value }) => value)).toEqual([{ thread: 64, seq: 5 }, arrived()]);
});

test("packed messages keep strings, binaries and absent members, and garbage in one is a fault", () => {
  const value = {
    key: SENDER,
    role: "ingress",
    host: "a",
    pid: 3,
    sentAt: 1,
    startedAt: NEVER,
    leaving: false,
    arrivals: [{ thread: 64, term: 2, arrivalSeq: 2 ** 40 }],
  } as unknown as Heartbeat;
  const writer = new FrameWriter(SENDER);
  writer.add(Heartbeat, value);
  const frame = writer.take().slice();
  const seen: unknown[] = [];
  const reader = new FrameReader().on(Heartbeat, (got) => seen.push(got));
  expect(reader.read(frame)).toBeUndefined();
  expect(seen).toEqual([value]);
  frame.fill(0xc1, 24);
  expect(reader.read(frame)?.fault).toMatch(/^heartbeat: unreadable msgpack/);
  expect(seen).toHaveLength(1);
});

test("tokens and packed binaries are copies: a frame's memory may be reused", () => {
  const type = message({ tag: 901, name: "t", from: "a", to: "b", repair: "none", fields: { token: field.token } });
  const writer = new FrameWriter(SENDER);
  writer.add(type, { token: new Uint8Array(16).fill(7) });
  const frame = writer.take();
  let token = new Uint8Array();
  new FrameReader().on(type, (value) => (token = value.token as Uint8Array<ArrayBuffer>)).read(frame);
  frame.fill(0);
  expect(token).toEqual(new Uint8Array(16).fill(7));
});

test("a member that no reader would take is refused where it is written, and the frame stays whole", () => {
  const writer = new FrameWriter(SENDER);
  writer.add(RequestArrived, arrived());
  for (const bad of [{ seq: 0 }, { term: -1 }, { slo: 0.5 }, { thread: -1 }, { priority: 256 }, { deadline: NaN }])
    expect(() => writer.add(RequestArrived, arrived(bad as never))).toThrow(AssertionError);
  expect(() => writer.add(GpuFreed, { gpu: 70_000 } as never)).toThrow(/gpu/);
  writer.add(RequestArrived, arrived({ arrivalSeq: 18 }));
  const { seen, fault } = readAll(writer.take());
  expect([seen.length, fault]).toEqual([2, undefined]);
});

test("a frame of the wrong magic, version, sender or length says so", () => {
  const broken = (change: (frame: Uint8Array) => Uint8Array | void): string | undefined => {
    const frame = frameOf(arrived());
    return readAll(change(frame) ?? frame).fault?.fault;
  };
  expect(broken((frame) => frame.subarray(0, 7))).toBe("a frame of 7 bytes");
  expect(broken((frame) => void (frame[0] = 0))).toBe("not a frame");
  expect(broken((frame) => void (frame[2] = 9))).toBe("a frame of version 9, and this release reads 1");
  expect(broken((frame) => void frame.fill(0, 8, 16))).toBe("sender 0 is no actor");
  expect(broken((frame) => void (frame[4] = 2))).toBe("1 records are missing");
  expect(broken((frame) => frame.subarray(0, frame.byteLength - 8))).toBe("record 0 (tag 1) ends early");
  expect(broken((frame) => new Uint8Array([...frame, 0, 0, 0, 0, 0, 0, 0, 0]))).toBe("8 bytes are left over");
});

test("a record of an older writer that ends before an added list has none of its items (LAYOUT-3)", () => {
  const { CandidateOffered } = protocol;
  const { unfit, ...fields } = CandidateOffered.fields!;
  expect(unfit?.isAdded).toBe(true);
  const older = message({ ...CandidateOffered, fields });
  fc.assert(
    fc.property(arbitraryRecord(fields), (offer) => {
      const writer = new FrameWriter(SENDER);
      writer.add(older, offer);
      let seen: unknown;
      expect(new FrameReader().on(CandidateOffered, (value) => (seen = value)).read(writer.take())).toBeUndefined();
      expect(seen).toEqual({ ...offer, unfit: [] });
    }),
  );
});
