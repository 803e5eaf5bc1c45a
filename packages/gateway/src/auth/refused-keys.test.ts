import type { Logger } from "@tutti/ports/telemetry";
import { expect, test } from "vitest";
import { RefusedKeys } from "./refused-keys.ts";

test("refused keys are told at once, and then once a second with their number", () => {
  const lines: object[] = [];
  const keys = new RefusedKeys({ warn: (fields: object) => lines.push(fields) } as unknown as Logger);
  for (let at = 0; at < 2_500; at += 10) keys.note(`10.0.0.${at % 7}`, at);
  expect(lines).toMatchObject([
    { audit: "authentication", refused: 1, from: "10.0.0.0" },
    { refused: 100, from: `10.0.0.${1_000 % 7}` },
    { refused: 100, from: `10.0.0.${2_000 % 7}` },
  ]);
});
