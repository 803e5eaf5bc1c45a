import { expect, test } from "vitest";
import { HalfMadeStream, onceSettled } from "./settling.ts";

test("an operation on a stream that is just being made is repeated until it is there, and no longer than wanted", async () => {
  let tries = 0;
  const opened = (after: number) => () =>
    ++tries > after ? Promise.resolve("open") : Promise.reject(new HalfMadeStream("leases"));
  const always = (): boolean => true;
  expect([await onceSettled(opened(2), always), tries]).toEqual(["open", 3]);
  tries = 0;
  await expect(onceSettled(opened(2), () => false)).rejects.toThrow("bucket leases is just being made");
  expect(tries).toBe(1);
});

test("what fails for another reason is not repeated", async () => {
  let tries = 0;
  const failing = () => (tries++, Promise.reject(new Error("denied")));
  await expect(onceSettled(failing, () => true)).rejects.toThrow("denied");
  expect(tries).toBe(1);
});
