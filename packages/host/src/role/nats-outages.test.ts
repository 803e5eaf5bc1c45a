import { expect, test } from "vitest";
import { outages } from "./nats-outages.ts";

const SCOPE = "Until it is back, only requests are served that need no other host";

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
    [`NATS can't be reached: ${SCOPE}`, {}],
    ["NATS is back", { awayS: 30.2 }],
  ]);
});

test("a server that hangs is said to, and a connection that breaks over it is no second outage", () => {
  const said: unknown[] = [];
  let now = 5_000;
  const onStatus = outages({ warn: (fields, text) => void said.push([text, fields]) }, () => now);
  onStatus({ kind: "silent", lagMs: 1_500 });
  now = 5_500;
  onStatus({ kind: "heard", lagMs: 2_000 });
  now = 20_000;
  onStatus({ kind: "silent", lagMs: 2_000 });
  now = 26_000;
  onStatus({ kind: "disconnected" });
  now = 30_000;
  onStatus({ kind: "reconnected", server: "a" });
  const hangs = (s: string): string => `NATS can't be reached: it has answered nothing for ${s} s. ${SCOPE}`;
  expect(said).toEqual([
    [hangs("1.5"), {}],
    ["NATS is back", { awayS: 2 }],
    [hangs("2.0"), {}],
    ["NATS is back", { awayS: 12 }],
  ]);
});
