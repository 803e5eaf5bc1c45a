import type { Delivery } from "@tutti/ports/bus";
import { type DataFrame, encodeFragments, encodeReply } from "@tutti/wire";
import { expect, test } from "vitest";
import { FrameIntake } from "./frame-intake.ts";

const ASSEMBLIES_MAX = 64;
const BULK = 4_000;

const deliveryOf = (payload: Uint8Array): Delivery => ({
  subject: "bulk",
  reply: undefined,
  payload,
  header: () => undefined,
});
const frameOf = (): DataFrame => {
  const [frame] = [encodeReply([{ seq: 1, row: new Uint8Array(BULK), traceparent: "" }], 1)].flat();
  return frame!;
};

test("of frames that come in fragments so many are put together at once; the oldest is given up for a new one (T7)", () => {
  const faults: string[] = [];
  let whole = 0;
  const intake = new FrameIntake(
    (text) => faults.push(text),
    () => whole++,
  );
  const parts = Array.from({ length: ASSEMBLIES_MAX + 1 }, (_, i) => encodeFragments(frameOf(), 5, i + 1, 1_000));
  for (const [first] of parts) intake.take(deliveryOf(first!));
  expect(faults).toEqual(["a frame whose fragments don't all come is given up"]);
  for (const [, ...rest] of parts) for (const part of rest) intake.take(deliveryOf(part));
  expect(whole).toBe(ASSEMBLIES_MAX);
});
