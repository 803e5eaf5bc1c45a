import { ModelRegistry } from "@tutti/client/registries";
import { InMemoryNetwork } from "@tutti/ports/bus";
import { InMemoryStore } from "@tutti/ports/store";
import {
  Heartbeat,
  type RefusedRequest,
  RefusalsAsked,
  RefusalsTold,
  StatsReported,
  subjectsOf,
} from "@tutti/protocol";
import { type ActorKey, type Instant, actorKey, actorToken, instant, micros, millis } from "@tutti/units";
import { FrameReader, FrameWriter } from "@tutti/wire";
import { expect, test, vi } from "vitest";
import { EXIT } from "../failure.ts";
import { checkName } from "./asked-name.ts";
import { ClusterView } from "./cluster-view.ts";
import { askIngresses } from "./ingress-questions.ts";
import { refusalRows, renderExplanation, renderRefusals } from "./refusal-rows.ts";
import { refusalSentences } from "./refusal-sentences.ts";
import { answersWithin, nobodyError, questionOf } from "./refusals.ts";

const AT = instant(Date.UTC(2026, 10, 26, 20, 16, 3, 123) * 1_000);
const [INGRESS, BATCHER, EXECUTOR] = [77_777, 88_888, 99_999].map(actorKey);
const refusal = {
  ...{ code: "TUTTI_OVERLOADED", text: '"m" is overloaded', retryable: true, retryAfterMs: 40 },
  ...{ by: "batcher" as const, actor: BATCHER!, feasible: millis(43) },
};
const queue = { waitedFor: "accelerator", queued: 12, inFlight: 1, accelerators: 4, idle: 0, alone: millis(6) };
const REFUSED: RefusedRequest = {
  ...{ entry: 7, at: AT, waited: millis(18), model: "m", app: "shop", messageId: "order-17", slo: millis(25) },
  ...{ refusal, queue },
};
const told = (requests: readonly RefusedRequest[], ingress = INGRESS!): RefusalsTold => ({
  ...{ ask: 1, ingress, requests, matching: requests.length, seen: 5, left: 1 },
});

test("a refusal is explained by what its batcher knew", () => {
  expect(refusalSentences(REFUSED)).toEqual([
    `The batcher ${actorToken(BATCHER!)} refused it (OVERLOADED) 18 ms after it had come, with an SLO of 25 ms.`,
    "It waited for an accelerator: as far as its batcher knew, all 4 that serve were busy.",
    "12 other requests of its queue were waiting, and 1 batch was under way.",
    "By itself on a free accelerator it would have needed 6 ms of its 25 ms.",
    "An SLO of at least 43 ms would have been needed, 18 ms more than it had, even with an accelerator free by then.",
    'The publisher was told: ""m" is overloaded", and that it may send it again after 40 ms.',
  ]);
});

test.each([
  [{ idle: 1 }, "as far as its batcher knew, 1 of the 4 that serve was idle"],
  [{ accelerators: 1 }, "as far as its batcher knew, the one that serves was busy"],
  [{ accelerators: 0 }, "none serves its model"],
  [{ waitedFor: "batch" }, "its batch was not due yet"],
  [{ waitedFor: "nothing" }, "could not be met any more when it reached its batcher"],
  [{ waitedFor: "room" }, "Its queue was full."],
  [{ waitedFor: "share" }, "the share of its application or priority was used up"],
])("what it waited for is a sentence: %j", (state, sentence) => {
  const sentences = refusalSentences({ ...REFUSED, queue: { ...queue, ...state } });
  expect(sentences[1]).toContain(sentence);
  expect(sentences.join().includes("even with an accelerator")).toBe(sentence.includes("serve"));
});

test("a cause that only a newer batcher knows is no sentence, and an SLO that was long enough is no advice", () => {
  const unknown = { ...REFUSED, queue: { ...queue, waitedFor: "tea" }, refusal: { ...refusal, feasible: millis(20) } };
  const sentences = refusalSentences(unknown);
  expect(sentences[1]).toBe("12 other requests of its queue were waiting, and 1 batch was under way.");
  expect(sentences.join()).not.toContain("would have been needed");
  expect(refusalRows([told([unknown])], 1)[0]?.feasibleUs).toBe(undefined);
});

test("a late answer is explained by its batch, and a failed run by its executor", () => {
  const { refusal: _, queue: __, ...request } = REFUSED;
  const times = { startedAt: (AT - 11_000) as Instant, finishedAt: (AT - 1_000) as Instant };
  const batch = { size: 8, executor: EXECUTOR!, gpu: 2 as never, ...times };
  expect(refusalSentences({ ...request, waited: millis(31), lateBy: millis(6), batch })).toEqual([
    "It was answered 6 ms late: 31 ms after it had come, with an SLO of 25 ms.",
    `Its batch of 8 started 20 ms after it had come on accelerator 2 of executor ${actorToken(EXECUTOR!)}, ran for 10 ms, and the outcome left 1 ms later.`,
  ]);
  const failed = { code: "TUTTI_INTERNAL", retryable: false, by: "executor" as const, actor: EXECUTOR! };
  const sentences = refusalSentences({ ...request, batch, refusal: failed });
  expect(sentences[0]).toContain(`The executor ${actorToken(EXECUTOR!)} refused it (INTERNAL)`);
  expect(sentences.at(-1)).toBe(
    "The publisher was told the reason in a text that may quote its input, and is not kept, and that it may not send it again unchanged.",
  );
  const [row] = refusalRows([told([{ ...request, batch, refusal: failed }])], 1);
  expect(row!.reason).toBe("the publisher was told; the text may quote its input, and is not kept");
});

test("rows of all ingresses are in order of time, and named by the publisher's id or by their number", () => {
  const { messageId: _, slo: __, ...nameless } = { ...REFUSED, entry: 9, at: (AT + 5) as Instant };
  const rows = refusalRows([told([REFUSED]), told([nameless], EXECUTOR)], 10);
  expect(rows.map(({ id }) => id)).toEqual([`${actorToken(EXECUTOR!)}.9`, "order-17"]);
  expect(refusalRows([told([REFUSED, nameless])], 1).map(({ at }) => at)).toEqual([AT + 5]);
  const [head, first, second] = renderRefusals(rows).split("\n");
  expect(head).toMatch(
    /^when \(UTC\) +model +application +id +cause +by +SLO +waited +needed +queue +waited for +reason$/,
  );
  expect(first).toMatch(/ OVERLOADED +batcher +- +18 ms +43 ms +12 +accelerator +"m" is overloaded$/);
  expect(second).toMatch(/^11-26 20:16:03.123 +m +shop +order-17 +OVERLOADED +batcher +25 ms /);
});

test("an explanation begins with what the request was, and what came from outside moves no cursor", () => {
  const [row] = refusalRows([told([{ ...REFUSED, model: "rec", pipeline: "ocr", messageId: "a\u001b[2J\nb" }])], 1);
  const [head, ...sentences] = renderExplanation(row!).split("\n");
  expect(head).toBe(
    `a\\u001b[2J\\nb: shop asked rec (a stage of ocr), ended 2026-11-26T20:16:03.123Z at ingress ${actorToken(INGRESS!)}`,
  );
  expect(sentences).toHaveLength(6);
});

test("flags become a question, and what is none says so", () => {
  const none = { limit: "20" };
  expect(questionOf(undefined, none, AT)).toEqual({ most: 20 });
  expect(
    questionOf("m", { ...none, app: "shop", cause: "overloaded", since: "5m", request: "x".repeat(200) }, AT),
  ).toEqual({
    ...{ model: "m", app: "shop", cause: "TUTTI_OVERLOADED", since: AT - 300_000_000, most: 20 },
    request: "x".repeat(128),
  });
  const causes = ["late", "LATE", "TUTTI_DEADLINE_INFEASIBLE", "deadline-infeasible"];
  expect(causes.map((cause) => questionOf(undefined, { ...none, cause }, AT).cause)).toEqual([
    "LATE",
    "LATE",
    "TUTTI_DEADLINE_INFEASIBLE",
    "TUTTI_DEADLINE_INFEASIBLE",
  ]);
  const usage = (model: string | undefined, flags: object): unknown => {
    try {
      return questionOf(model, { ...none, ...flags }, AT);
    } catch (error) {
      return error;
    }
  };
  const wrong = (message: string) =>
    expect.objectContaining({ exitCode: EXIT.usage, message: expect.stringContaining(message) });
  expect(usage(undefined, { cause: "overlaoded" })).toEqual(wrong('did you mean "OVERLOADED"?'));
  expect(usage(undefined, { cause: "cancelled" })).toEqual(wrong("--cause cancelled"));
  expect(usage(undefined, { since: "yesterday" })).toEqual(wrong("--since yesterday"));
  for (const limit of ["0", "101", "1.5", "all"])
    expect(usage(undefined, { limit })).toEqual(wrong(`--limit ${limit}`));
  expect(usage("a.b", {})).toEqual(wrong("a.b is no name"));
  expect(usage(undefined, { app: "a b" })).toEqual(wrong("--app a b"));
});

test("a name that neither a model nor a pipeline has is told a similar one", async () => {
  const network = new InMemoryNetwork();
  const store = new InMemoryStore();
  const draft = {
    name: "mlp",
    engine: "onnx",
    slo: micros(25_000),
    batchSizeMax: 8,
    patience: 1,
    version: "1",
  } as const;
  const tensors = { inputs: [], outputs: [], constants: [], axes: {}, buckets: [{}] };
  await new ModelRegistry(store).publish({ ...draft, ...tensors });
  await new ModelRegistry(store).publishVersion({ ...draft, ...tensors, version: "2" });
  const ingress = network.connect({ name: "ingress" });
  const who = { key: INGRESS!, role: "ingress" as const };
  const pipelines = [{ name: "receipts", version: "1", slo: micros(25_000), stages: [], inputs: [], outputs: [] }];
  const reporting = setInterval(() => {
    const [beat, stats] = [new FrameWriter(INGRESS!), new FrameWriter(INGRESS!)];
    beat.add(Heartbeat, { ...who, host: "h", pid: 1, leaving: false, sentAt: AT, startedAt: AT });
    stats.add(StatsReported, { ...who, at: AT, figures: {}, pipelines });
    ingress.publish(subjectsOf("main").beat("ingress"), beat.take());
    ingress.publish(subjectsOf("main").stats("ingress"), stats.take());
  }, 20);
  const check = (name: string): Promise<void> =>
    checkName(name, { bus: network.connect({ name: "operator" }), store, cluster: "main", waitMs: 60_000 });
  const unknown = (advice: string): unknown =>
    expect.objectContaining({ code: "TUTTI_NOT_FOUND", message: expect.stringContaining(advice) });
  for (const name of ["mlp", "mlp/1", "mlp/2"]) await check(name);
  await Promise.all([
    check("receipts"),
    expect(check("mpl")).rejects.toEqual(unknown('no model named "mpl" is loaded: did you mean "mlp"?')),
    expect(check("reciepts")).rejects.toEqual(unknown('did you mean "receipts"?')),
    expect(check("zebra")).rejects.toEqual(unknown('"tutti models" lists what is')),
  ]);
  clearInterval(reporting);
});

test("where no ingress answers, its permissions may be old: the advice ends with its restart", () => {
  expect(nobodyError([]).message).toContain("`tutti actors`");
  expect(nobodyError([INGRESS!]).message).toMatch(/tutti auth write.*tutti restart ingress/);
});

test("an ingress that does not answer is waited for as long as was asked, and no longer", async () => {
  const network = new InMemoryNetwork();
  const ingress = network.connect({ name: "ingress" });
  const beat = (): void => {
    const writer = new FrameWriter(INGRESS!);
    const who = { key: INGRESS!, role: "ingress" as const, host: "h", pid: 1, leaving: false };
    writer.add(Heartbeat, { ...who, sentAt: AT, startedAt: AT });
    ingress.publish(subjectsOf("main").beat("ingress"), writer.take());
  };
  const beating = setInterval(beat, 20);
  const startedAt = performance.now();
  const bus = network.connect({ name: "operator" });
  const { silent } = await answersWithin(bus, { most: 3 }, { cluster: "main", waitMs: 600 });
  clearInterval(beating);
  expect(silent).toEqual([INGRESS]);
  expect(performance.now() - startedAt).toBeLessThan(1_000);
});

test("an ingress that is heard late is in the answer, which comes as soon as all can be known", async () => {
  const subjects = subjectsOf("main");
  const network = new InMemoryNetwork();
  const ingress = network.connect({ name: "ingress" });
  const write = (key: ActorKey, add: (writer: FrameWriter) => unknown): Uint8Array => {
    const writer = new FrameWriter(key);
    add(writer);
    return writer.take();
  };
  const beat = (key: ActorKey): void => {
    const who = { key, role: "ingress" as const, host: "h", pid: 1, leaving: false, sentAt: AT, startedAt: AT };
    const frame = write(key, (writer) => writer.add(Heartbeat, who));
    ingress.publish(subjects.beat("ingress"), frame);
  };
  const answer = (key: ActorKey, operator: number): void => {
    const frame = write(key, (writer) => writer.add(RefusalsTold, told([REFUSED], key)));
    ingress.publish(subjects.refusalsTold(actorKey(operator)), frame);
  };
  const reader = new FrameReader().on(RefusalsAsked, (_, operator) => {
    answer(INGRESS!, operator);
    if (isHeard) answer(EXECUTOR!, operator);
  });
  ingress.subscribe(subjects.refusals, ({ payload }) => void reader.read(payload));
  // The second one is stalled until its next heartbeat, just within the second.
  let isHeard = false;
  const asked = answersWithin(network.connect({ name: "operator" }), { most: 3 }, { cluster: "main", waitMs: 60_000 });
  beat(INGRESS!);
  const timer = setTimeout(() => {
    isHeard = true;
    beat(EXECUTOR!);
  }, 950);
  const { answers, silent } = await asked;
  clearTimeout(timer);
  expect([answers.map(({ ingress: key }) => key), silent]).toEqual([[INGRESS, EXECUTOR], []]);
});

test("once the last ingress has answered, nothing is left that would keep the command until --wait", async () => {
  vi.useFakeTimers();
  try {
    const subjects = subjectsOf("main");
    const network = new InMemoryNetwork();
    const ingress = network.connect({ name: "ingress" });
    const publish = (subject: string, add: (writer: FrameWriter) => unknown): void => {
      const writer = new FrameWriter(INGRESS!);
      add(writer);
      ingress.publish(subject, writer.take());
    };
    let isBusy = true;
    const reader = new FrameReader().on(RefusalsAsked, (_, operator) => {
      if (isBusy) return;
      publish(subjects.refusalsTold(actorKey(operator)), (writer) => writer.add(RefusalsTold, told([REFUSED])));
    });
    ingress.subscribe(subjects.refusals, ({ payload }) => void reader.read(payload));
    const bus = network.connect({ name: "operator" });
    const asked = answersWithin(bus, { most: 3 }, { cluster: "main", waitMs: 60_000 });
    const who = { key: INGRESS!, role: "ingress" as const, host: "h", pid: 1, leaving: false };
    publish(subjects.beat("ingress"), (writer) => writer.add(Heartbeat, { ...who, sentAt: AT, startedAt: AT }));
    await vi.advanceTimersByTimeAsync(2_000);
    isBusy = false;
    await vi.advanceTimersByTimeAsync(500);
    expect(await asked).toEqual({ answers: [told([REFUSED])], silent: [] });
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});

test("every ingress that is there is asked, and those that don't answer are named", async () => {
  const subjects = subjectsOf("main");
  const network = new InMemoryNetwork();
  const view = new ClusterView();
  for (const key of [INGRESS!, EXECUTOR!])
    view.hearBeat({
      ...{ key, role: "ingress", host: "h", pid: 1, leaving: false },
      ...{ sentAt: AT, startedAt: AT },
    });
  const ingress = network.connect({ name: "ingress" });
  const answer = (operator: number, sender = INGRESS!): void => {
    const writer = new FrameWriter(sender);
    writer.add(RefusalsTold, told([REFUSED]));
    ingress.publish(subjects.refusalsTold(actorKey(operator)), writer.take());
  };
  const reader = new FrameReader().on(RefusalsAsked, (asked, operator) => {
    expect(asked).toEqual({ ask: 1, model: "m", most: 3 });
    answer(operator, BATCHER); // in another's name: it doesn't count
    answer(operator);
  });
  ingress.subscribe(subjects.refusals, ({ payload }) => void reader.read(payload));
  const bus = network.connect({ name: "operator" });
  const asked = await askIngresses(bus, { model: "m", most: 3 }, { cluster: "main", view, waitMs: 50 });
  expect(asked).toEqual({ answers: [told([REFUSED])], silent: [EXECUTOR] });
  view.hearBeat({ ...view.actors()[1]!.beat, leaving: true });
  const whole = await askIngresses(bus, { model: "m", most: 3 }, { cluster: "main", view, waitMs: 60_000 });
  expect(whole.silent).toEqual([]);
});
