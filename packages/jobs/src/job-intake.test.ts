import { InMemoryNetwork } from "@tutti/ports/bus";
import type { KeptResult, StoredResult } from "@tutti/ports/jobs";
import {
  HEADER,
  JOB_HEADER,
  OUR_PAYLOAD_BYTES_MAX,
  REQUEST_BYTES_MAX,
  TuttiError,
  errorBody,
  queuedJobSubject,
  resultSubject,
} from "@tutti/protocol";
import { expect, test } from "vitest";
import { AppShares } from "./app-shares.ts";
import { JobIntake } from "./job-intake.ts";

/** A queue in memory, which drops a message whose id it has. */
class FakeQueue {
  readonly messages = new Map<string, StoredResult & { readonly subject: string }>();
  readonly results = new Map<string, KeptResult>();
  lastRevision = 0;
  /** Calls wait for it. */
  gate: Promise<void> = Promise.resolve();
  /** The queue's own refusal. */
  refusal: TuttiError | undefined;

  async enqueue(subject: string, job: StoredResult, messageId: string): Promise<{ readonly isDuplicate: boolean }> {
    await this.gate;
    if (this.refusal !== undefined) throw this.refusal;
    if (this.messages.has(messageId)) return { isDuplicate: true };
    this.messages.set(messageId, { subject, ...job });
    return { isDuplicate: false };
  }
  async result(subject: string): Promise<KeptResult | undefined> {
    await this.gate;
    return this.results.get(subject);
  }
  async forgetResult(subject: string, revision: number): Promise<number | undefined> {
    if (this.results.get(subject)?.revision !== revision) return undefined;
    this.results.delete(subject);
    return ++this.lastRevision;
  }
  store(id: string, headers: Record<string, string>): void {
    const result = { headers, payload: new Uint8Array([1]), revision: ++this.lastRevision };
    this.results.set(resultSubject("shop", "mlp", id), result);
  }
}

interface Answer {
  readonly text: string;
  readonly header: (name: string) => string | undefined;
}

async function scene() {
  const network = new InMemoryNetwork({ payloadMax: OUR_PAYLOAD_BYTES_MAX });
  const [bus, publisher] = [network.connect({ name: "jobs" }), network.connect({ name: "publisher" })];
  const queue = new FakeQueue();
  const shares = new AppShares();
  const empty = { jobs: new Map(), jobsByApp: new Map() };
  await shares.lookAtQueue(async () => ({ ...empty, bytesByApp: new Map(), bytesFree: Infinity }));
  const intake = new JobIntake({ bus, queue, shares, randomId: () => "random" }, "app");
  intake.open();
  let count = 0;
  const ask = (subject: string, body: string | Uint8Array, headers: Record<string, string> = {}): Promise<Answer> =>
    new Promise((resolve) => {
      const reply = `_INBOX.shop.${++count}`;
      publisher.subscribe(reply, (delivery) => {
        const text = new TextDecoder().decode(delivery.payload);
        resolve({ text, header: (name) => delivery.header(name) });
      });
      publisher.publish(subject, bytes(body), { reply, headers });
    });
  const submit = async (headers: Record<string, string>, body: string | Uint8Array = "{}"): Promise<unknown> =>
    JSON.parse((await ask("jobs.mlp.shop", body, headers)).text);
  return { queue, shares, intake, publisher, ask, submit };
}
const bytes = (body: string | Uint8Array): Uint8Array =>
  typeof body === "string" ? new TextEncoder().encode(body) : body;
const settled = () => new Promise((resolve) => setTimeout(resolve, 20));
const FAILED = { [HEADER.errorCode]: "400", [HEADER.error]: "x is short" };

test("the receipt says under which id the job is in the queue, and which headers count is not the publisher's choice", async () => {
  const { queue, submit } = await scene();
  const terms = { [HEADER.slo]: "2h", [HEADER.version]: "2" };
  const others = { [HEADER.job]: "1", "Nats-Expected-Stream": "x", [JOB_HEADER.deadTries]: "7" };
  expect(await submit({ [HEADER.messageId]: "a", ...terms, ...others }, "body")).toEqual({ id: "a", duplicate: false });
  expect([...queue.messages]).toEqual([
    [
      "shop.mlp.a",
      {
        subject: queuedJobSubject("mlp", "shop", 175),
        headers: { ...terms, [JOB_HEADER.id]: "a" },
        payload: bytes("body"),
      },
    ],
  ]);
  expect(await submit({ [HEADER.messageId]: "b", [JOB_HEADER.id]: "own" })).toMatchObject({ id: "own" });
  expect(await submit({})).toMatchObject({ id: "random" });
});

test("a job is a duplicate of one with its id, its model and its application, and of no other", async () => {
  const { queue, submit, publisher } = await scene();
  expect(await submit({ [JOB_HEADER.id]: "a" })).toMatchObject({ duplicate: false });
  expect(await submit({ [JOB_HEADER.id]: "a" })).toMatchObject({ duplicate: true });
  const headers = { [JOB_HEADER.id]: "a" };
  for (const subject of ["jobs.cnn.shop", "jobs.mlp.bank", "jobs.mlp/2.shop"])
    publisher.publish(subject, bytes("{}"), { headers }); // without a reply: the receipt goes nowhere
  await settled();
  expect([...queue.messages.keys()]).toEqual(["shop.mlp.a", "shop.cnn.a", "bank.mlp.a", "shop.mlp/2.a"]);
});

test("a message with another's reply subject changes nothing (JOB-3)", async () => {
  const { queue, intake, publisher } = await scene();
  const heard: string[] = [];
  for (const reply of ["$KV.tutti_leases.model.1", "_INBOX.bank.1", "_INBOX.shop", "jobqueue.mlp.bank"]) {
    publisher.subscribe(reply, ({ subject }) => heard.push(subject));
    for (const subject of ["jobs.mlp.shop", "jobresults.mlp.shop"])
      publisher.publish(subject, bytes("a"), { reply, headers: {} });
  }
  await settled();
  expect([heard, queue.messages.size, intake.figures.undeliverable]).toEqual([[], 0, 8]);
});

test("what is no job is refused with its code, and nothing is queued", async () => {
  const { queue, submit, ask } = await scene();
  const invalid = { code: "TUTTI_INVALID_INPUT" };
  for (const headers of [
    { [JOB_HEADER.id]: "a.b" },
    { [HEADER.messageId]: "x".repeat(65) },
    { [HEADER.slo]: "169h" },
    { [HEADER.deadline]: "1785000000000" },
    { [HEADER.costs]: "25ms=1" },
  ])
    expect(await submit(headers), JSON.stringify(headers)).toMatchObject(invalid);
  expect(JSON.parse((await ask("jobs.m$p.shop", "{}")).text)).toMatchObject(invalid);
  const large = { code: "TUTTI_TOO_LARGE" };
  expect(await submit({}, new Uint8Array(REQUEST_BYTES_MAX + 1))).toMatchObject(large);
  expect(await submit({ [HEADER.tracestate]: "x".repeat(70_000) })).toMatchObject(large);
  expect(await submit({}, new Uint8Array(REQUEST_BYTES_MAX))).toMatchObject({ duplicate: false });
  expect(queue.messages.size).toBe(1);
  queue.refusal = new TuttiError("TUTTI_OVERLOADED", "full", { retryAfterMs: 10_000 });
  expect(await submit({})).toEqual(errorBody(queue.refusal));
});

test("a job that failed runs again under its id, and its old failure is gone before the receipt (JOB-5)", async () => {
  const { queue, submit } = await scene();
  await submit({ [JOB_HEADER.id]: "a" });
  queue.store("a", FAILED);
  expect(await submit({ [JOB_HEADER.id]: "a" })).toEqual({ id: "a", duplicate: false, revision: 2 });
  expect([...queue.messages.keys()]).toEqual(["shop.mlp.a", "shop.mlp.a.1"]);
  expect(queue.results.size).toBe(0);
  // While it waits another one is a duplicate; outputs are not removed.
  expect(await submit({ [JOB_HEADER.id]: "a" })).toEqual({ id: "a", duplicate: true });
  queue.store("a", {});
  expect(await submit({ [JOB_HEADER.id]: "a" })).toEqual({ id: "a", duplicate: true });
  expect(queue.results.size).toBe(1);
});

test("a failure that is stored a moment after its publisher heard of it counts too", async () => {
  const { queue, submit } = await scene();
  await submit({ [JOB_HEADER.id]: "a" });
  const again = submit({ [JOB_HEADER.id]: "a" });
  setTimeout(() => queue.store("a", FAILED), 50);
  expect(await again).toEqual({ id: "a", duplicate: false, revision: 2 });
});

test("a result is read by its application, with its number; where there is none the answer says so", async () => {
  const { queue, ask } = await scene();
  queue.store("a", FAILED);
  const found = await ask("jobresults.mlp.shop", "a");
  expect([found.header(JOB_HEADER.revision), found.header(HEADER.error)]).toEqual(["1", "x is short"]);
  const none = await ask("jobresults.mlp.shop", "b");
  expect(none.header(JOB_HEADER.revision)).toBeUndefined();
  expect(JSON.parse(none.text)).toMatchObject({ code: "TUTTI_NOT_FOUND" });
  expect(JSON.parse((await ask("jobresults.mlp.shop", "a.>")).text)).toMatchObject({ code: "TUTTI_INVALID_INPUT" });
});

test("an intake holds so many jobs and no more, and reads so many results at once", async () => {
  const { queue, submit, ask } = await scene();
  let open = (): void => undefined;
  queue.gate = new Promise((resolve) => (open = resolve));
  const jobs = Array.from({ length: 1_024 }, (_, i) => submit({ [JOB_HEADER.id]: `j-${i}` }));
  expect(await submit({})).toMatchObject({ code: "TUTTI_OVERLOADED", retryable: true });
  const reads = Array.from({ length: 32 + 4_096 }, (_, i) => ask("jobresults.mlp.shop", `r-${i}`));
  expect(JSON.parse((await ask("jobresults.mlp.shop", "more")).text)).toMatchObject({ code: "TUTTI_OVERLOADED" });
  open();
  expect((await Promise.all(jobs)).length).toBe(1_024);
  for (const { text } of await Promise.all(reads)) expect(text).toContain("TUTTI_NOT_FOUND");
  expect(queue.messages.size).toBe(1_024);
});

test("an intake that holds as many bytes as it may refuses the next job", async () => {
  const { queue, submit } = await scene();
  let open = (): void => undefined;
  queue.gate = new Promise((resolve) => (open = resolve));
  const body = new Uint8Array(REQUEST_BYTES_MAX);
  const jobs = Array.from({ length: 64 }, (_, i) => submit({ [JOB_HEADER.id]: `j-${i}` }, body));
  expect(await submit({}, body)).toMatchObject({ code: "TUTTI_OVERLOADED" });
  open();
  await Promise.all(jobs);
});

test("an intake that leaves sends its last receipts first, and takes nothing new", async () => {
  const { queue, intake, submit, publisher } = await scene();
  let open = (): void => undefined;
  queue.gate = new Promise((resolve) => (open = resolve));
  const order: string[] = [];
  const last = submit({ [JOB_HEADER.id]: "last" }).then(() => order.push("receipt"));
  await settled();
  const left = new Promise<void>((resolve) =>
    intake.drain(() => {
      order.push("left");
      resolve();
    }),
  );
  await settled();
  publisher.publish("jobs.mlp.shop", bytes("{}"), { headers: {} });
  await settled();
  open();
  await Promise.all([last, left]);
  expect([order.toSorted(), queue.messages.size]).toEqual([["left", "receipt"], 1]);
});

test("an application that holds its share is refused with what to do, and others are not", async () => {
  const { queue, shares, submit, publisher } = await scene();
  const held = new Map([["shop", 600]]);
  await shares.look("queue", async () => ({ bytesByApp: held, bytesFree: 700 }));
  expect(await submit({}, "x".repeat(200))).toMatchObject({
    code: "TUTTI_OVERLOADED",
    retryable: true,
    error: expect.stringContaining("submit more when some of them are done") as string,
  });
  publisher.publish("jobs.mlp.bank", bytes("x".repeat(200)), { headers: { [JOB_HEADER.id]: "other" } });
  await settled();
  expect([...queue.messages.keys()]).toEqual(["bank.mlp.other"]);
  held.set("shop", 0);
  await shares.look("queue", async () => ({ bytesByApp: held, bytesFree: 700 }));
  expect(await submit({}, "x".repeat(200))).toMatchObject({ duplicate: false });
});
