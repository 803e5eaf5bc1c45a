import { InMemoryNetwork } from "@tutti/ports/bus";
import { RefusalsAsked, RefusalsTold, TuttiError, subjectsOf } from "@tutti/protocol";
import { actorKey, instant } from "@tutti/units";
import { FrameReader, FrameWriter } from "@tutti/wire";
import { expect, test } from "vitest";
import { RefusalLog } from "./refusal-log.ts";
import { answerRefusalQuestions } from "./refusal-questions.ts";
import { pendingRequest } from "../testing/pending-request.ts";

const INGRESS = actorKey(7);
const OPERATOR = actorKey(9);

function setUp() {
  const network = new InMemoryNetwork({ deliver: (run) => run(), later: (run) => run() });
  const [bus, operator] = [network.connect({ name: "ingress" }), network.connect({ name: "operator" })];
  const runtime = { subjects: subjectsOf("main"), faults: 0 };
  const log = new RefusalLog(INGRESS);
  const told: RefusalsTold[] = [];
  const reader = new FrameReader().on(RefusalsTold, (answer) => void told.push(answer));
  operator.subscribe(runtime.subjects.refusalsTold(OPERATOR), ({ payload }) => void reader.read(payload));
  const answering = answerRefusalQuestions({ runtime, key: INGRESS, bus, log });
  const ask = (question: Partial<RefusalsAsked>): void => {
    const writer = new FrameWriter(OPERATOR);
    writer.add(RefusalsAsked, { ask: 1, most: 10, ...question });
    operator.publish(runtime.subjects.refusals, writer.take());
  };
  return { operator, runtime, log, told, answering, ask };
}

test("a question is answered to its asker, each time that it is asked, until the ingress leaves", () => {
  const { log, told, answering, ask } = setUp();
  const error = new TuttiError("TUTTI_OVERLOADED", "too much");
  for (const messageId of ["a", "b"])
    log.note(pendingRequest({ messageId }), { error, by: "ingress", now: instant(1_000_000), results: undefined });
  ask({ request: "b" });
  ask({ request: "b" });
  expect(told).toEqual(
    Array(2).fill({
      ask: 1,
      ingress: INGRESS,
      requests: log.find({ ask: 1, most: 1 }).requests,
      matching: 1,
      seen: 2,
      left: 0,
    }),
  );
  answering.stop();
  ask({});
  expect(told.length).toBe(2);
});

test("a malformed question is counted and gets no answer (T8)", () => {
  const { operator, runtime, told, ask } = setUp();
  ask({ most: 1_000_000 });
  ask({ request: "x".repeat(1_000) });
  operator.publish(runtime.subjects.refusals, new Uint8Array([1, 2, 3]));
  expect([runtime.faults, told]).toEqual([3, []]);
});
