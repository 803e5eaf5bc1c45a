import { expect, test } from "vitest";
import { outages } from "./nats-outages.ts";

test("an outage of NATS is said once, with how long it took, however often the connection tries", () => {
  const said: unknown[] = [];
  let now = 1_000;
  const onStatus = outages({ warn: (fields, text) => void said.push([text, fields]) }, () => now);
  onStatus({ kind: "reconnected", server: "first" });
  onStatus({ kind: "disconnected" });
  onStatus({ kind: "disconnected" });
  now = 31_240;
  onStatus({ kind: "reconnected", server: "a" });
  onStatus({ kind: "reconnected", server: "b" });
  expect(said).toEqual([
    ["NATS can't be reached: requests fail until it is back", {}],
    ["NATS is back", { awayS: 30.2 }],
  ]);
});
