import { expect, test } from "vitest";
import { fnv1a } from "./index.ts";

test("names hash as FNV-1a says", () => {
  expect([fnv1a(""), fnv1a("a"), fnv1a("foobar")]).toEqual([0x811c9dc5, 0xe40c292c, 0xbf9cf968]);
});
