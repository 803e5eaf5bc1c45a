import { noTelemetry } from "@tutti/ports/telemetry";
import { type StoredKind, isModelFaults, isModelStatus } from "@tutti/protocol";
import { expect, test } from "vitest";
import { EntryReader } from "./entry-reader.ts";

/** A reader of entries that nothing can read, and the keys that it has reported. */
function setup() {
  const said: string[] = [];
  const warn = (fields: object): void => void said.push((fields as { key: string }).key);
  const reader = new EntryReader({ ...noTelemetry.log, warn });
  const read = (kind: StoredKind<unknown>, key: string): unknown =>
    reader.read(kind, { key, value: new Uint8Array([1]), revision: 1 });
  return { said, reader, read };
}

test("a fault is said once for each entry, though two kinds have a key in common", () => {
  const { said, reader, read } = setup();
  for (let i = 0; i < 3; i++) for (const kind of [isModelStatus, isModelFaults]) read(kind, "7");
  expect(said).toEqual(["7", "7"]);
  reader.forget(isModelStatus, "7");
  for (const kind of [isModelStatus, isModelFaults]) read(kind, "7");
  expect(said).toEqual(["7", "7", "7"]);
});

test("beyond the bound only the oldest fault is forgotten", () => {
  const { said, read } = setup();
  for (let i = 0; i <= 1_024; i++) read(isModelStatus, `${i}`);
  said.length = 0;
  for (const key of ["1", "1024", "0"]) read(isModelStatus, key);
  expect(said).toEqual(["0"]);
});
