import { HEADER, JOB_DEADLINE_US_MAX, JOB_HEADER } from "@tutti/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { readTerms } from "./job-terms.ts";

const MESSAGE = { subject: "jobqueue.mlp/2.shop.9", seq: 17, submittedAtMs: 1_000 };
const job = (headers: Readonly<Record<string, string>>, subject = MESSAGE.subject) =>
  readTerms({ ...MESSAGE, subject, headers: { [JOB_HEADER.id]: "a", ...headers } });

test("a job has the id that the intake wrote, and a message without one is no job", () => {
  expect(readTerms({ ...MESSAGE, headers: { [JOB_HEADER.id]: "a", [HEADER.job]: "1" } })).toMatchObject({
    ...{ id: "a", model: "mlp/2", app: "shop" },
  });
  for (const headers of [{}, { [HEADER.job]: "1" }, { [JOB_HEADER.id]: "a.b" }])
    expect(readTerms({ ...MESSAGE, headers })).toMatchObject({ id: "seq-17", error: { code: "TUTTI_INVALID_INPUT" } });
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
    [HEADER.messageId]: "a",
  });
});

test("whatever a message says, its terms are names that can stand in subjects, or an error", () => {
  const text = fc.string({ maxLength: 80 });
  fc.assert(
    fc.property(text, text, text, text, (model, app, id, slo) => {
      const terms = job({ [JOB_HEADER.id]: id, [HEADER.slo]: slo }, `jobqueue.${model}.${app}.9`);
      if ("error" in terms) expect(terms.error.code).toBe("TUTTI_INVALID_INPUT");
      else expect(`${terms.model}.${terms.app}.${terms.id}`).toMatch(/^[\w/-]+\.[\w-]+\.[\w-]+$/);
    }),
  );
});
