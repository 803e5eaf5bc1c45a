import type { ObjectResult } from "@nats-io/obj";
import { expect, test } from "vitest";
import { readFile } from "./read-file.ts";

/** A store's result for a file of three bytes, one chunk each, of which `chunks` come. */
function found(chunks: number, failure?: Error): ObjectResult {
  const data = new ReadableStream<Uint8Array>({
    start: (controller) => {
      for (let chunk = 1; chunk <= chunks; chunk++) controller.enqueue(Uint8Array.of(chunk));
      if (chunks === 3) controller.close();
    },
  });
  const error = failure === undefined ? Promise.resolve(null) : Promise.resolve(failure);
  return { info: { size: 3 }, data, error } as unknown as ObjectResult;
}

/** A store that returns the answers in order and repeats the last one; it counts the calls. */
function store(...answers: readonly (() => ObjectResult | null)[]) {
  const asked = { count: 0 };
  const get = (): Promise<ObjectResult | null> =>
    Promise.resolve(answers[Math.min(asked.count++, answers.length - 1)]!());
  return { asked, get };
}

test("a file that stalls is asked for anew, and what has come of it is forgotten", async () => {
  const replaced = store(
    () => found(0),
    () => found(2),
    () => found(3),
  );
  expect(await readFile(replaced, "f", 5)).toEqual(Uint8Array.of(1, 2, 3));
  expect(replaced.asked.count).toBe(3);
  const deleted = store(
    () => found(1),
    () => null,
  );
  expect(await readFile(deleted, "f", 5)).toBe(null);
});

test("one that goes on stalling is given up, and what its reader says is passed on", async () => {
  const stalled = store(() => found(2));
  await expect(readFile(stalled, "model.onnx", 2)).rejects.toThrow("model.onnx: none of it came for 2 ms, 10 times");
  expect(stalled.asked.count).toBe(10);
  await expect(
    readFile(
      store(() => found(3, new Error("digests do not match"))),
      "f",
      5,
    ),
  ).rejects.toThrow("digests");
});
