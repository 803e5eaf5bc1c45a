import { TuttiError } from "@tutti/protocol";
import { micros } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import { Instance, type InstanceEffects } from "./instance.ts";
import { type PipelineSpec, checkGraph } from "./pipeline-spec.ts";

const pipeline = (after: Readonly<Record<string, readonly string[]>>): PipelineSpec => ({
  name: "p",
  version: "1",
  slo: micros(100_000),
  split: "even",
  stages: Object.entries(after).map(([name, before]) => ({
    name,
    model: `m-${name}`,
    after: before,
    before: "./f.ts#f",
  })),
  finish: "./f.ts#g",
});
const CHAIN = pipeline({ a: [], b: ["a"] });
const DIAMOND = pipeline({ s: [], a: ["s"], b: ["s"], j: ["a", "b"] });
const TREE = pipeline({ s: [], a: ["s"], b: ["s"], c: ["b"] });
const bytes = (value: number): Uint8Array => Uint8Array.of(value);

/** An instance with a log of its effects. The test performs the effects that are due, when it chooses. */
function recorded(spec: PipelineSpec, limits: { requestsMax?: number; bytesMax?: number } = {}) {
  const log: string[] = [];
  const due: string[] = [];
  const note = (text: string): void => {
    log.push(text);
    due.push(text);
  };
  const out: InstanceEffects = {
    prepare: ({ name }) => note(`prepare ${name}`),
    send: ({ name }, index) => note(`send ${name} ${index}`),
    withdraw: ({ name }, index) => void log.push(`withdraw ${name} ${index}`),
    finish: () => note("finish"),
    answer: () => void log.push("answer"),
    refuse: ({ message }) => void log.push(`refuse ${message}`),
  };
  return { instance: new Instance<{ bytes: number }>(spec, out, limits), log, due };
}

test("a chain with a fan-out of two goes from stage to stage, and the function of the second gets what the first answered", () => {
  const { instance, log } = recorded(CHAIN);
  instance.begin();
  instance.prepared("a", [bytes(1)], { bytes: 3 });
  instance.answered("a", 0, bytes(10));
  expect(instance.known("b")).toEqual({ stages: { a: [bytes(10)] }, kept: { a: { bytes: 3 } } });
  instance.prepared("b", [bytes(2), bytes(3)]);
  instance.answered("b", 1, bytes(21));
  instance.answered("b", 0, bytes(20));
  expect(instance.underway).toBe("finish");
  expect(instance.known().stages).toEqual({ a: [bytes(10)], b: [bytes(20), bytes(21)] });
  instance.finished(bytes(0));
  expect(log).toEqual(["prepare a", "send a 0", "prepare b", "send b 0", "send b 1", "finish", "answer"]);
  expect(instance.bytes).toBe(6);
});

test("a filter that lets nothing through skips its stage, and those after it go on with no outputs (INSTANCE-3)", () => {
  const { instance, log } = recorded(CHAIN);
  instance.begin();
  instance.prepared("a", []);
  expect(instance.known("b").stages).toEqual({ a: [] });
  instance.prepared("b", []);
  expect(log).toEqual(["prepare a", "prepare b", "finish"]);
});

test("branches run side by side and know nothing of one another; the join waits for both", () => {
  const { instance, log } = recorded(DIAMOND);
  instance.begin();
  instance.prepared("s", [bytes(1)]);
  instance.answered("s", 0, bytes(1));
  instance.prepared("a", []);
  expect(Object.keys(instance.known("b").stages)).toEqual(["s"]);
  instance.prepared("b", [bytes(1)]);
  expect(log.at(-1)).toBe("send b 0");
  instance.answered("b", 0, bytes(1));
  expect(log.at(-1)).toBe("prepare j");
  expect(Object.keys(instance.known("j").stages).sort()).toEqual(["a", "b", "s"]);
});

test("a refusal at any stage refuses the whole at once, says where, and takes back the siblings (INSTANCE-2)", () => {
  const { instance, log } = recorded(TREE);
  instance.begin();
  instance.prepared("s", [bytes(1)]);
  instance.answered("s", 0, bytes(1));
  instance.prepared("a", [bytes(1), bytes(2), bytes(3)]);
  instance.prepared("b", [bytes(1)]);
  instance.answered("a", 1, bytes(1));
  instance.stageFailed("b", new TuttiError("TUTTI_OVERLOADED", "too busy", { retryAfterMs: 7 }));
  expect(log.slice(-4)).toEqual(["withdraw a 0", "withdraw a 2", "withdraw b 0", "refuse stage b: too busy"]);
  instance.answered("a", 0, bytes(1));
  instance.end(new TuttiError("TUTTI_CANCELLED", "late"));
  expect(log.at(-1)).toBe("refuse stage b: too busy");
});

test("requests and bytes of one instance are bounded, and the refusal names the limit and the stage (T7)", () => {
  const many = recorded(CHAIN, { requestsMax: 3 });
  many.instance.begin();
  many.instance.prepared("a", [bytes(1), bytes(2)]);
  many.instance.answered("a", 0, bytes(1));
  many.instance.answered("a", 1, bytes(1));
  many.instance.prepared("b", [bytes(1), bytes(1)]);
  expect(many.log.at(-1)).toMatch(/^refuse stage b: .*PIPELINE_REQUESTS_MAX/);
  const large = recorded(CHAIN, { bytesMax: 3 });
  large.instance.begin();
  large.instance.prepared("a", [bytes(1)], { bytes: 2 });
  large.instance.answered("a", 0, Uint8Array.of(1, 2));
  expect(large.log.at(-1)).toMatch(/^refuse stage a: .*PIPELINE_BYTES_MAX/);
});

/**
 * Random graphs: each stage comes after some of those before it. Only graphs over which an SLO can be divided are kept.
 */
const specs = fc
  .array(fc.array(fc.nat(), { maxLength: 2 }), { minLength: 1, maxLength: 6 })
  .map((picks) =>
    pipeline(
      Object.fromEntries(
        picks.map((some, i) => [
          `s${i}`,
          i === 0 ? [] : [...new Set((some.length === 0 ? [0] : some).map((pick) => `s${pick % i}`))],
        ]),
      ),
    ),
  )
  .filter((spec) => {
    try {
      checkGraph(spec);
      return true;
    } catch {
      return false;
    }
  });

test("every instance ends exactly once, whatever the order of answers and refusals; nothing happens afterwards (INSTANCE-1, INSTANCE-2)", () => {
  fc.assert(
    fc.property(
      specs,
      fc.infiniteStream(fc.nat({ max: 999 })),
      fc.constantFrom(0, 20, 100),
      (spec, stream, refusalsPerThousand) => {
        const next = (): number => stream.next().value as number;
        const { instance, log, due } = recorded(spec);
        const fanOut = new Map<string, number>();
        // The oracle: a stage may be prepared when all before it have their answers, and is sent once for each request.
        const answers = new Map(spec.stages.map(({ name }) => [name, 0]));
        let ended = false;
        instance.begin();
        while (due.length > 0 && !ended) {
          const [what, name = "", index = ""] = due.splice(next() % due.length, 1)[0]!.split(" ");
          const fails = next() < refusalsPerThousand;
          if (what === "prepare") {
            for (const before of spec.stages.find((one) => one.name === name)!.after)
              expect(answers.get(before)).toBe(fanOut.get(before));
            const count = next() % 4;
            if (!fails) fanOut.set(name, count);
            if (fails) instance.stageFailed(name, new TuttiError("TUTTI_INTERNAL", "no"));
            else
              instance.prepared(
                name,
                Array.from({ length: count }, (_, i) => bytes(i)),
              );
          } else if (what === "send") {
            if (!fails) answers.set(name, answers.get(name)! + 1);
            if (fails) instance.stageFailed(name, new TuttiError("TUTTI_OVERLOADED", "no"));
            else {
              instance.answered(name, Number(index), bytes(1));
              instance.answered(name, Number(index), bytes(2)); // a repeated answer is ignored
            }
          } else if (fails) instance.end(new TuttiError("TUTTI_CANCELLED", "no"));
          else instance.finished(bytes(0));
          ended = fails || what === "finish";
        }
        const ends = log.filter((one) => one === "answer" || one.startsWith("refuse"));
        expect(ends).toHaveLength(1);
        expect(log.at(-1)).toBe(ends[0]);
        if (ends[0] === "answer") expect([...answers]).toEqual([...fanOut].sort());
        else {
          const sent = log.filter((one) => one.startsWith("send ")).length;
          const answered = [...answers.values()].reduce((sum, one) => sum + one, 0);
          expect(log.filter((one) => one.startsWith("withdraw")).length).toBeGreaterThanOrEqual(
            Math.max(0, sent - answered - 1),
          );
        }
        const before = log.length;
        for (const one of spec.stages) {
          instance.prepared(one.name, [bytes(1)]);
          instance.answered(one.name, 0, bytes(1));
          instance.stageFailed(one.name, new TuttiError("TUTTI_INTERNAL", "late"));
        }
        instance.finished(bytes(1));
        expect(log).toHaveLength(before);
      },
    ),
    { numRuns: 400 },
  );
});

test("effects may bring the next event in the same turn: everything ends within begin(), once", () => {
  for (const refusedAt of [undefined, "s", "a", "b", "j"]) {
    const log: string[] = [];
    const instance: Instance<{ bytes: number }> = new Instance(DIAMOND, {
      prepare: ({ name }) => instance.prepared(name, [bytes(1), bytes(2)]),
      send: ({ name }, index) =>
        name === refusedAt
          ? instance.stageFailed(name, new TuttiError("TUTTI_OVERLOADED", "no"))
          : (log.push(`send ${name} ${index}`), instance.answered(name, index, bytes(1))),
      withdraw: () => undefined,
      finish: () => instance.finished(bytes(1)),
      answer: () => void log.push("answer"),
      refuse: ({ message }) => void log.push(message),
    });
    instance.begin();
    expect(log.filter((one) => one === "answer" || one.startsWith("stage"))).toHaveLength(1);
    expect(log.at(-1)).toBe(refusedAt === undefined ? "answer" : `stage ${refusedAt}: no`);
    expect(instance.hasEnded).toBe(true);
  }
});
