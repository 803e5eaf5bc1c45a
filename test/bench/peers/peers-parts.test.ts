import { expect, test } from "vitest";
import { nextRate, searchGoodput } from "./goodput-search.ts";
import { quantile, readAnswer } from "./load-generator.ts";
import { tableOf } from "./peers-table.ts";
import { binaryRequest, jsonRequest } from "./requests.ts";

test("an answer is read when all of it is there, and not before", () => {
  const whole = Buffer.from("HTTP/1.1 503 Nope\r\nContent-Length: 4\r\nX: y\r\n\r\nbody");
  for (let bytes = 0; bytes < whole.byteLength; bytes++) expect(readAnswer(whole.subarray(0, bytes))).toBeUndefined();
  const read = readAnswer(Buffer.concat([whole, Buffer.from("HTTP/1.1 200")]))!;
  expect([read.status, read.end]).toEqual([503, whole.byteLength]);
  expect(whole.toString("latin1", read.bodyAt, read.end)).toBe("body");
});

test("the search finds what each contestant carries, one trial of each in turn, and forgives one bad second", async () => {
  const carries = new Map([
    ["fast", 7_300],
    ["slow", 130],
    ["endless", Infinity],
  ]);
  const trials: string[] = [];
  let hiccups = 1;
  const found = await searchGoodput([...carries.keys()], 16_000, async (name, perSecond) => {
    trials.push(name);
    if (name === "fast" && perSecond === 2_000 && hiccups-- > 0) return 0;
    return perSecond <= carries.get(name)! ? 0.995 : 0.9;
  });
  expect(found.get("endless")).toBe(16_000);
  for (const name of ["fast", "slow"]) {
    expect(found.get(name)! / carries.get(name)!).toBeGreaterThan(0.92);
    expect(found.get(name)! / carries.get(name)!).toBeLessThanOrEqual(1);
  }
  expect(trials.slice(0, 3)).toEqual(["fast", "slow", "slow"]);
  expect(nextRate({ low: 0, high: 20 }, 16_000)).toBeUndefined();
});

test("both forms of a request say how long they are", () => {
  const parts = { path: "/infer", input: "x", row: [1, 2, 3], sloMs: 30 };
  for (const request of [jsonRequest(parts), binaryRequest(parts)]) {
    const bodyAt = request.indexOf("\r\n\r\n") + 4;
    const told = /Content-Length: (\d+)\r\n\r\n/.exec(request.toString("latin1"));
    expect(Number(told?.[1])).toBe(request.byteLength - bodyAt);
  }
});

test("quantiles and the table survive what is missing", () => {
  expect([quantile([3, 1, 2], 0.5), quantile([], 0.5)]).toEqual([2, NaN]);
  const text = tableOf({ sloMs: 30, rows: [{ name: "a" }], skipped: { b: "not here" } });
  expect(text).toContain("b was skipped: not here");
});
