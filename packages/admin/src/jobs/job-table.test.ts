import { JOB_HEADER } from "@tutti/protocol";
import { expect, test } from "vitest";
import { deadRow, jobRows, renderDead, renderJobs } from "./job-table.ts";

const rows = jobRows({
  backlogs: new Map([
    ["ocr", { queued: 900, inFlight: 64 }],
    ["mlp", { queued: 5, inFlight: 5 }],
  ]),
  rates: new Map([["ocr", 12.5]]),
  dead: new Map([["cnn", 2]]),
});

test("a queue is empty when its jobs are done at the present rate; without a rate nobody knows", () => {
  expect(rows).toEqual([
    { model: "cnn", waiting: 0, inFlight: 0, rate: 0, endsInS: 0, dead: 2 },
    { model: "mlp", waiting: 0, inFlight: 5, rate: 0, endsInS: null, dead: 0 },
    { model: "ocr", waiting: 836, inFlight: 64, rate: 12.5, endsInS: 72, dead: 0 },
  ]);
});

test("the table says when the end is expected, who is missing, and where reasons are", () => {
  const text = renderJobs(rows, 0, new Date(2026, 10, 26, 9, 59, 0));
  expect(text).toMatch(/ocr +836 +64 +12\.5 +in 72 s \(10:00\) +0/);
  expect(text).toContain("not at this rate");
  expect(text).toContain("no job runner was heard");
  expect(text).toContain("tutti jobs dead");
  expect(renderJobs([], 1, new Date())).toBe("no jobs");
});

test("a dead letter without headers has a row all the same", () => {
  const letter = {
    subject: "deadjobs.mlp.shop.INTERNAL.9",
    seq: 3,
    headers: {},
    payload: new Uint8Array(0),
    diedAtMs: 0,
  };
  expect(deadRow(letter)).toMatchObject({ model: "mlp", app: "shop", seq: 3, id: "", tries: 0 });
});

test("of a dead letter, words of its publisher and its model's reason stay in their cells", () => {
  const [text, row] = ["deadjobs.mlp.shop.INTERNAL.9", 3] as const;
  const headers = {
    [JOB_HEADER.deadReason]: "no\u001b]0;owned\u0007\nmlp  shop",
    [JOB_HEADER.deadCode]: "TUTTI_INTERNAL",
  };
  const letter = { subject: text, seq: row, headers, payload: new Uint8Array(0), diedAtMs: 0 };
  const shown = renderDead([deadRow(letter)]);
  expect(shown).toContain("no\\u001b]0;owned\\u0007\\nmlp  shop");
  expect(shown.split("\n")).toHaveLength(2);
});
