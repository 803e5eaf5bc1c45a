import { type GpuId } from "@tutti/units";
import { expect, test } from "vitest";
import { SoleAccelerator } from "./sole-accelerator.ts";

const gpu = (id: number): GpuId => id as GpuId;
const WAITS = 32;

/** After so many batches that waited for accelerator 0. */
function after(waits: number): SoleAccelerator {
  const sole = new SoleAccelerator();
  for (let i = 0; i < waits; i++) sole.note(gpu(0), true);
  return sole;
}

test("there counts to be one accelerator when enough batches have waited for the same", () => {
  expect(after(WAITS - 1).isSole).toBe(false);
  expect(after(WAITS).isSole).toBe(true);
});

test("a batch that found its accelerator free says nothing", () => {
  const sole = after(WAITS - 1);
  for (let i = 0; i < 100; i++) sole.note(gpu(0), false);
  expect(sole.isSole).toBe(false);
  sole.note(gpu(0), true);
  expect(sole.isSole).toBe(true);
  sole.note(gpu(0), false);
  expect(sole.isSole).toBe(true);
});

test("one grant of another accelerator is proof that there is one", () => {
  const sole = after(1_000);
  sole.note(gpu(3), false);
  expect(sole.isSole).toBe(false);
  for (let i = 0; i < WAITS - 1; i++) sole.note(gpu(3), true);
  expect(sole.isSole).toBe(false);
});
