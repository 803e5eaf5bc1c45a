import { HEADER, JOB_DEADLINE_US_MAX, JOB_HEADER } from "@tutti/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { readTerms } from "./job-terms.ts";

const job = (headers: Readonly<Record<string, string>>, subject = "jobs.mlp/2.shop") =>
  readTerms({ subject, headers, seq: 17, submittedAtMs: 1_000 });

test("a job has the id of its header, else of its message, else its number in the queue", () => {
  expect(job({ [HEADER.messageId]: "m" })).toMatchObject({ id: "m", model: "mlp/2", app: "shop" });
  expect(job({ [HEADER.messageId]: "requeued-3", [JOB_HEADER.id]: "a" })).toMatchObject({ id: "a" });
  expect(job({})).toMatchObject({ id: "seq-17" });
});

test("a deadline counts from the submission; a job without one has the longest", () => {
  expect(job({ [HEADER.slo]: "2h" })).toMatchObject({ deadlineAtMs: 7_201_000 });
  expect(job({})).toMatchObject({ deadlineAtMs: 1_000 + JOB_DEADLINE_US_MAX / 1_000 });
});

test("a deadline beyond seven days, or none at all, is an invalid input", () => {
  for (const slo of ["169h", "0ms", "soon", "-1s", ""])
    expect(job({ [HEADER.slo]: slo }), slo).toMatchObject({ error: { code: "TUTTI_INVALID_INPUT" } });
});

test("the request gets the headers of a request, and none of the queue's own", () => {
  const headers = { [HEADER.contentType]: "application/json", [HEADER.version]: "2", "Nats-Expected-Stream": "x" };
  const terms = job({ ...headers, [HEADER.messageId]: "m", [HEADER.slo]: "1m" });
  expect("headers" in terms && terms.headers).toEqual({
    [HEADER.contentType]: "application/json",
    [HEADER.version]: "2",
    [HEADER.messageId]: "m",
  });
});

test("whatever a message says, its terms are names that can stand in subjects, or an error", () => {
  const text = fc.string({ maxLength: 80 });
  fc.assert(
    fc.property(text, text, text, text, (model, app, id, slo) => {
      const terms = job({ [HEADER.messageId]: id, [HEADER.slo]: slo }, `jobs.${model}.${app}`);
      if ("error" in terms) expect(terms.error.code).toBe("TUTTI_INVALID_INPUT");
      else expect(`${terms.model}.${terms.app}.${terms.id}`).toMatch(/^[\w/-]+\.[\w-]+\.[\w-]+$/);
    }),
  );
});
