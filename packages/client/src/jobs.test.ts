import { InMemoryNetwork, type Bus, type Delivery } from "@tutti/ports/bus";
import { CONTENT, HEADER, JOB_HEADER, TuttiError, errorBody, jobResultsSubject, resultSubject } from "@tutti/protocol";
import { encodeTensors } from "@tutti/wire";
import { expect, test } from "vitest";
import { TuttiClient } from "./client.ts";
import { JOB_RESULTS_AWAITED_MAX } from "./jobs.ts";
import type { InferResult } from "./answer.ts";

/** A client beside a job runner that answers as the test wants. */
function scene(receipt: unknown, headers: Readonly<Record<string, string>> = {}) {
  const network = new InMemoryNetwork();
  const [server, bus] = [network.connect({ name: "server" }), network.connect({ name: "client" })];
  const seen: { subject: string; id: string | undefined; slo: string | undefined }[] = [];
  server.subscribe("jobs.*.*", (delivery) => {
    const { subject } = delivery;
    seen.push({ subject, id: delivery.header(JOB_HEADER.id), slo: delivery.header(HEADER.slo) });
    const answer = receipt instanceof TuttiError ? failed(receipt) : { payload: json(receipt), headers };
    server.publish(delivery.reply!, answer.payload, { headers: answer.headers });
  });
  return { server, client: new TuttiClient(bus, { app: "shop" }), seen };
}
const INPUTS = { x: new Float32Array([1]) };
const json = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));
const failed = (error: TuttiError): Kept => ({
  payload: json(errorBody(error)),
  headers: { [HEADER.errorCode]: String(error.status), [HEADER.error]: error.message },
});
const RECEIPT = { id: "a", duplicate: false };

interface Kept {
  readonly payload: Uint8Array;
  readonly headers: Record<string, string>;
}

/** Answers reads of a result. */
function keeps(server: Bus, id: string, answer: () => Kept | undefined, revision = 1): void {
  server.subscribe(jobResultsSubject("mlp", "shop"), ({ reply, payload: asked }: Delivery) => {
    if (new TextDecoder().decode(asked) !== id) return;
    const found = answer();
    const { payload, headers } = found ?? failed(new TuttiError("TUTTI_NOT_FOUND", "not yet"));
    const own = found === undefined ? {} : { [JOB_HEADER.revision]: String(revision) };
    server.publish(reply!, payload, { headers: { ...headers, ...own } });
  });
}
const outputs = (y: number) => ({
  payload: encodeTensors([{ name: "y", type: "FP32", dims: [1], data: new Uint8Array(new Float32Array([y]).buffer) }]),
  headers: { [HEADER.contentType]: CONTENT.binary },
});
const y = (result: InferResult): unknown => (result.outputs["y"]!.data as Float32Array)[0];

test("a job is in the queue once its receipt came, and says whether it was there", async () => {
  const { client, seen } = scene(RECEIPT);
  const job = await client.jobs.submit("mlp", INPUTS, { id: "a", deadline: "2h" });
  expect([job.id, job.isDuplicate]).toEqual(["a", false]);
  expect(seen).toEqual([{ subject: "jobs.mlp.shop", id: "a", slo: "2h" }]);
  const again = scene({ ...RECEIPT, duplicate: true });
  expect((await again.client.jobs.submit("mlp", INPUTS, { id: "a" })).isDuplicate).toBe(true);
});

test("a queue that is full refuses jobs, and says so with a code and a time", async () => {
  const full = new TuttiError("TUTTI_OVERLOADED", "maximum bytes exceeded", { retryAfterMs: 10_000 });
  const refusal = { code: "TUTTI_OVERLOADED", retryable: true, retryAfterMs: 10_000 };
  await expect(scene(full).client.jobs.submit("mlp", INPUTS)).rejects.toMatchObject(refusal);
  await expect(scene("a receipt?").client.jobs.submit("mlp", INPUTS)).resolves.toMatchObject({ isDuplicate: false });
});

test("without a job runner a job is refused at once, and may be sent again", async () => {
  const { client } = scene("", { Status: "503" });
  const none = { code: "TUTTI_UNAVAILABLE", retryable: true, message: expect.stringContaining("no job runner") };
  await expect(client.jobs.submit("mlp", INPUTS)).rejects.toMatchObject(none);
});

test("names, ids and deadlines that can't be are refused before anything is sent", async () => {
  const { client, seen } = scene(RECEIPT);
  for (const [model, options] of [
    ["a.b", {}],
    ["mlp", { app: "*" }],
    ["mlp", { id: "a.b" }],
    ["mlp", { id: "x".repeat(65) }],
    ["mlp", { deadline: "169h" }],
    ["mlp", { deadline: "soon" }],
  ] as const)
    await expect(client.jobs.submit(model, INPUTS, options)).rejects.toMatchObject({ code: "TUTTI_INVALID_INPUT" });
  expect(seen).toEqual([]);
});

test("a result is taken as it is stored, and found where it was stored before", async () => {
  const { client, server } = scene(RECEIPT);
  let stored: Kept | undefined;
  keeps(server, "a", () => stored);
  const job = client.jobs.job("mlp", "a");
  expect(await job.peek()).toBeUndefined();
  const waiting = job.result();
  const { payload, headers } = (stored = outputs(7));
  server.publish(resultSubject("shop", "mlp", "a"), payload, { headers });
  expect(y(await waiting)).toBe(7);
  expect(y(await job.result())).toBe(7);
});

test("a job that was given up rejects with its error; a result that was removed is none", async () => {
  const { client, server } = scene(RECEIPT);
  keeps(server, "bad", () => failed(new TuttiError("TUTTI_INVALID_INPUT", "x is too short")));
  const gaveUp = { code: "TUTTI_INVALID_INPUT", message: "x is too short", retryable: false };
  await expect(client.jobs.job("mlp", "bad").result()).rejects.toMatchObject(gaveUp);
  expect(await client.jobs.job("mlp", "bad").peek()).toMatchObject(gaveUp);
  keeps(server, "gone", () => undefined);
  expect(await client.jobs.job("mlp", "gone").peek()).toBeUndefined();
  // A job may fail with the very code that says that there is no result.
  keeps(server, "unknown", () => failed(new TuttiError("TUTTI_NOT_FOUND", "no model mlp")));
  expect(await client.jobs.job("mlp", "unknown").peek()).toMatchObject({ code: "TUTTI_NOT_FOUND" });
});

test("a job that runs again has no result of its earlier run", async () => {
  const { client, server } = scene({ ...RECEIPT, revision: 8 });
  keeps(server, "a", () => failed(new TuttiError("TUTTI_INTERNAL", "the earlier run")), 7);
  expect(await client.jobs.job("mlp", "a").peek()).toMatchObject({ message: "the earlier run" });
  const job = await client.jobs.submit("mlp", INPUTS, { id: "a" });
  expect(await job.peek()).toBeUndefined();
  const waiting = job.result();
  const { payload, headers } = outputs(7);
  server.publish(resultSubject("shop", "mlp", "a"), payload, { headers });
  expect(y(await waiting)).toBe(7);
});

test("every wait for a result ends: by its own bound, or with the client; of more than the bound one is refused", async () => {
  const { client } = scene(RECEIPT);
  await expect(client.jobs.job("mlp", "a").result({ withinMs: 1 })).rejects.toMatchObject({
    code: "TUTTI_DEADLINE_EXCEEDED",
  });
  const waits = Array.from({ length: JOB_RESULTS_AWAITED_MAX }, (_, i) =>
    client.jobs
      .job("mlp", `w-${i}`)
      .result()
      .catch((error: TuttiError) => error.code),
  );
  await expect(client.jobs.job("mlp", "more").result()).rejects.toMatchObject({ code: "TUTTI_OVERLOADED" });
  client.close();
  expect(new Set(await Promise.all(waits))).toEqual(new Set(["TUTTI_CANCELLED"]));
});
