import { TuttiError } from "@tutti/protocol";
import { actorKey, instant } from "@tutti/units";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { keptText } from "./kept-text.ts";
import { RefusalLog } from "../refusals/refusal-log.ts";
import { pendingRequest } from "../testing/pending-request.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** Bytes that the heap has more after `run` than before. */
function growth(run: () => unknown): number {
  collect();
  const before = process.memoryUsage().heapUsed;
  const result = run();
  collect();
  const grown = process.memoryUsage().heapUsed - before;
  expect(result).toBeDefined(); // It lives until here.
  return grown;
}

const COUNT = 300;
const BLOCK = new TextEncoder().encode(`${"id-of-a-request-of-the-shop ".repeat(3_000)}`);
/** A part of a text of 84 KB, as a header is of its block. */
function part(at: number): string {
  const text = new TextDecoder().decode(BLOCK);
  return text.slice(at, at + 40);
}

test("a kept text is the beginning of the text", () => {
  expect(["", "shop", "\u00fcber-17", "x".repeat(200)].map((text) => keptText(text, 128))).toEqual([
    ...["", "shop", "\u00fcber-17"],
    "x".repeat(128),
  ]);
});

test("refusals that are kept keep none of the messages that their ids and names came in", () => {
  const error = new TuttiError("TUTTI_OVERLOADED", "too much");
  const fields = ["target", "app", "pipeline", "messageId", "publisherId"] as const;
  const log = new RefusalLog(actorKey(7));
  const grown = growth(() => {
    for (let i = 0; i < COUNT; i++) {
      const request = pendingRequest({ [fields[i % fields.length]!]: part(i) });
      log.note(request, { error, by: "ingress", now: instant(1_000_000), results: undefined });
    }
    return log;
  });
  expect(log.left).toBe(0);
  expect(grown).toBeLessThan((COUNT * BLOCK.length) / 4);
});

test("a request that is held keeps none of the headers that its ids came in", () => {
  const grown = growth(() =>
    Array.from({ length: COUNT }, (_, i) => {
      const request = pendingRequest({ messageId: part(i), publisherTrace: part(i) });
      request.keepIds();
      return request;
    }),
  );
  expect(grown).toBeLessThan((COUNT * BLOCK.length) / 4);
});
