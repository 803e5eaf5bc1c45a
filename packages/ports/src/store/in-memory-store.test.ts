import { expect, test } from "vitest";
import { InMemoryStore } from "./index.ts";

const bytes = (...values: number[]): Uint8Array => new Uint8Array(values);

test("answers and changes go through the injected scheduler, in the order in which they came about", () => {
  const queue: (() => void)[] = [];
  const store = new InMemoryStore({ deliver: (run) => queue.push(run) });
  const log: string[] = [];
  store.watch("b", "", {
    onEntry: ({ key }) => log.push(`entry ${key}`),
    onDelete: (key) => log.push(`delete ${key}`),
    onReady: () => log.push("ready"),
    onFailure: () => log.push("failure"),
  });
  store.put("b", "x", bytes(1), () => log.push("put"));
  store.delete("b", "x", () => log.push("deleted"));
  expect(log).toEqual([]);
  for (const run of queue.splice(0)) run();
  expect(log).toEqual(["ready", "entry x", "put", "delete x", "deleted"]);
});

test("while it is not available every operation fails and nothing is written", () => {
  const queue: (() => void)[] = [];
  const store = new InMemoryStore({ deliver: (run) => queue.push(run) });
  const results: unknown[] = [];
  store.available = false;
  store.update("b", "x", bytes(1), 0, (result) => results.push(result));
  store.files.put("f", bytes(1), (result) => results.push(result));
  store.available = true;
  store.get("b", "x", (result) => results.push(result));
  store.files.get("f", (result) => results.push(result));
  for (const run of queue.splice(0)) run();
  const failure = { failure: "the store does not answer" };
  expect(results).toEqual([failure, failure, "absent", "absent"]);
});

test("a callback that throws is told to whoever listens, and others hear theirs", () => {
  const queue: (() => void)[] = [];
  const errors: unknown[] = [];
  const store = new InMemoryStore({ deliver: (run) => queue.push(run), onError: (error) => errors.push(error) });
  const heard: string[] = [];
  store.put("b", "x", bytes(1), () => {
    throw new Error("a bug of the caller");
  });
  store.put("b", "y", bytes(1), () => heard.push("y"));
  for (const run of queue.splice(0)) run();
  expect(errors).toMatchObject([{ message: "a bug of the caller" }]);
  expect(heard).toEqual(["y"]);
});
