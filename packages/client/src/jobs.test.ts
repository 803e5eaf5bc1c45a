import { InMemoryNetwork, type Bus, type Delivery } from "@tutti/ports/bus";
import { CONTENT, HEADER, TuttiError, errorBody, resultReadSubject, resultSubject } from "@tutti/protocol";
import { encodeTensors } from "@tutti/wire";
import { expect, test } from "vitest";
import { TuttiClient } from "./client.ts";
import { JOB_RESULTS_AWAITED_MAX } from "./jobs.ts";
import type { InferResult } from "./answer.ts";

/** A client beside a server that answers as the test wants. */
function scene(receipt: unknown, headers: Readonly<Record<string, string>> = {}) {
  const network = new InMemoryNetwork();
  const [server, bus] = [network.connect({ name: "server" }), network.connect({ name: "client" })];
  const seen: { subject: string; id: string | undefined; slo: string | undefined }[] = [];
  server.subscribe("jobs.*.*", (delivery) => {
    const { subject } = delivery;
    seen.push({ subject, id: delivery.header(HEADER.messageId), slo: delivery.header(HEADER.slo) });
    server.publish(delivery.reply!, new TextEncoder().encode(JSON.stringify(receipt)), { headers });
  });
  return { server, client: new TuttiClient(bus, { app: "shop" }), seen };
}
const INPUTS = { x: new Float32Array([1]) };
const RECEIPT = { stream: "tutti_jobs", seq: 1 };

/** Answers reads of a result. */
function keeps(server: Bus, id: string, answer: () => { payload: Uint8Array; headers: Record<string, string> }): void {
  server.subscribe(resultReadSubject("shop", "mlp", id), ({ reply }: Delivery) => {
    const { payload, headers } = answer();
    server.publish(reply!, payload, { headers });
  });
}
const ABSENT = { payload: new Uint8Array(0), headers: { Status: "404" } };
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
  const full = { error: { code: 503, err_code: 10077, description: "maximum bytes exceeded" } };
  const refusal = { code: "TUTTI_OVERLOADED", retryable: true, retryAfterMs: 10_000 };
  await expect(scene(full).client.jobs.submit("mlp", INPUTS)).rejects.toMatchObject(refusal);
  const other = { error: { code: 503, err_code: 10058, description: "no leader" } };
  await expect(scene(other).client.jobs.submit("mlp", INPUTS)).rejects.toMatchObject({ code: "TUTTI_UNAVAILABLE" });
});

test("without a queue a job is refused at once, and may be sent again", async () => {
  const { client } = scene("", { Status: "503" });
  const none = { code: "TUTTI_UNAVAILABLE", retryable: true, message: expect.stringContaining("no queue of jobs") };
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
  let stored = ABSENT as { payload: Uint8Array; headers: Record<string, string> };
  keeps(server, "a", () => stored);
  const job = client.jobs.job("mlp", "a");
  expect(await job.peek()).toBeUndefined();
  const waiting = job.result();
  stored = outputs(7);
  server.publish(resultSubject("shop", "mlp", "a"), stored.payload, { headers: stored.headers });
  expect(y(await waiting)).toBe(7);
  expect(y(await job.result())).toBe(7);
});

test("a job that was given up rejects with its error; a result that was removed is none", async () => {
  const { client, server } = scene(RECEIPT);
  const error = new TuttiError("TUTTI_INVALID_INPUT", "x is too short");
  const payload = new TextEncoder().encode(JSON.stringify(errorBody(error)));
  keeps(server, "bad", () => ({ payload, headers: { [HEADER.errorCode]: "400", [HEADER.error]: error.message } }));
  const gaveUp = { code: "TUTTI_INVALID_INPUT", message: "x is too short", retryable: false };
  await expect(client.jobs.job("mlp", "bad").result()).rejects.toMatchObject(gaveUp);
  expect(await client.jobs.job("mlp", "bad").peek()).toMatchObject(gaveUp);
  keeps(server, "gone", () => ({ payload: new Uint8Array(0), headers: { "KV-Operation": "DEL" } }));
  expect(await client.jobs.job("mlp", "gone").peek()).toBeUndefined();
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
