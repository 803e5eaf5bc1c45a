import { once } from "node:events";
import { connect } from "node:net";
import { gzipSync } from "node:zlib";
import { TuttiError } from "@tutti/protocol";
import { millis } from "@tutti/units";
import { afterEach, beforeEach, expect, test } from "vitest";
import { GatewayScene, TOKEN, twice } from "../testing/gateway-scene.ts";
import { BODY_BYTES_MAX } from "./body-reader.ts";

let scene: GatewayScene;
beforeEach(async () => {
  scene = await GatewayScene.open();
});
afterEach(() => scene.close());

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Record<string, unknown>;
}
const INFER = "/v2/models/twice/infer";
const x = (...data: unknown[]) => ({ name: "x", datatype: "FP32", shape: [data.length / 4, 4], data });

async function ask(path: string, init: RequestInit = {}): Promise<Answer> {
  const response = await fetch(scene.addresses.http + path, init);
  return { status: response.status, headers: response.headers, body: (await response.json()) as Answer["body"] };
}
const post = (path: string, body: unknown, headers: Record<string, string> = {}): Promise<Answer> =>
  ask(path, { method: "POST", body: typeof body === "string" ? body : JSON.stringify(body), headers });
/** Posts a request with the binary tensor extension. */
async function postBinary(
  json: object,
  tail: Uint8Array,
): Promise<{ head: Record<string, unknown>; tail: Uint8Array; type: string | null }> {
  const head = Buffer.from(JSON.stringify(json));
  const response = await fetch(scene.addresses.http + INFER, {
    method: "POST",
    body: Buffer.concat([head, tail]),
    headers: { "inference-header-content-length": String(head.byteLength) },
  });
  const bytes = new Uint8Array(await response.arrayBuffer());
  const length = Number(response.headers.get("inference-header-content-length") ?? bytes.byteLength);
  return {
    head: JSON.parse(new TextDecoder().decode(bytes.subarray(0, length))) as Record<string, unknown>,
    tail: bytes.subarray(length),
    type: response.headers.get("content-type"),
  };
}

test("health says whether this process lives and whether the cluster serves", async () => {
  expect(await ask("/v2/health/live")).toMatchObject({ status: 200, body: { live: true } });
  expect(await ask("/v2/health/ready")).toMatchObject({ status: 503, body: { ready: false } });
  expect((await ask("/v2/models/twice/ready")).status).toBe(503);
  scene.populate();
  await scene.until(() => true);
  let ready = await ask("/v2/health/ready");
  while (ready.status !== 200) ready = await ask("/v2/health/ready");
  expect(ready.body).toEqual({ ready: true, missing: [] });
  expect(await ask("/v2/models/twice/versions/1/ready")).toMatchObject({
    status: 200,
    body: { name: "twice", ready: true },
  });
  // A proxy would ask again after 503, and there is nothing to come.
  expect((await ask("/v2/models/twice/versions/2/ready")).status).toBe(404);
  expect((await ask("/v2/models/nobody/ready")).status).toBe(404);
  expect((await fetch(`${scene.addresses.http}/v2/health/live`, { method: "HEAD" })).status).toBe(200);
});

test("server, model, configuration and statistics are described as the protocol has it", async () => {
  expect((await ask("/v2")).body).toMatchObject({
    name: "tutti",
    extensions: expect.arrayContaining(["binary_tensor_data"]) as unknown,
  });
  expect((await ask("/v2/models/twice")).body).toEqual({
    name: "twice",
    versions: ["1"],
    platform: "emulated",
    inputs: [{ name: "x", datatype: "FP32", shape: [-1, 4] }],
    outputs: [
      { name: "y", datatype: "FP32", shape: [-1, 4] },
      { name: "n", datatype: "INT64", shape: [-1, 1] },
    ],
  });
  expect((await ask("/v2/models/twice/config")).body).toMatchObject({
    max_batch_size: 8,
    input: [{ name: "x", data_type: "TYPE_FP32", dims: [4] }],
  });
  await post(INFER, { inputs: [x(1, 2, 3, 4)] });
  expect((await ask("/v2/models/twice/versions/1/stats")).body).toMatchObject({
    model_stats: [{ name: "twice", version: "1", inference_stats: { queue: { count: 0, ns: 0 } } }],
  });
  expect((await ask("/v2/models/stats")).body["model_stats"]).toHaveLength(1);
});

test("a pipeline is described as its ingress reports it, and is ready while the models of its stages are", async () => {
  scene.populate();
  const read = {
    name: "read",
    version: "1",
    slo: millis(400),
    outputs: [{ name: "text", datatype: "UINT8", shape: [-1] }],
  };
  const image = { name: "image", datatype: "UINT8", shape: [-1] };
  const stages = [{ name: "find", model: "twice" }];
  const figures = { offered: 0, ok: 0, late: 0, latencyUs: 0, "refused.TUTTI_OVERLOADED": 0 };
  const counts = { ...figures };
  scene.join("ingress", {}, () => ({
    pipelines: [
      { ...read, inputs: [image], stages },
      { ...read, name: "broken", inputs: [], stages: [...stages, { name: "read", model: "nobody" }] },
      { ...read, name: "twice", inputs: [image], stages },
    ],
    perPart: [{ kind: "pipeline", of: "read", name: "read", figures: { ...counts } }],
  }));
  expect((await ask("/v2/models/read")).status).toBe(404);
  while ((await ask("/v2/models/read")).status === 404);
  while ((await ask("/v2/models/read/ready")).status !== 200);
  expect((await ask("/v2/models/read")).body).toEqual({
    ...{ name: "read", versions: ["1"], platform: "ensemble", inputs: [image], outputs: read.outputs },
  });
  expect((await ask("/v2/models/read/config")).body).toMatchObject({
    input: [{ name: "image", data_type: "TYPE_UINT8", dims: [-1] }],
    ensemble_scheduling: { step: [{ model_name: "twice", model_version: -1 }] },
  });
  expect((await ask("/v2/models/broken/ready")).status).toBe(503);
  // As in an ingress, a pipeline hides a model of its name.
  expect((await ask("/v2/models/twice")).body).toMatchObject({ platform: "ensemble" });
  await scene.registry.remove("twice", true);
  const listed = (await index()).body as unknown as { readonly name: string; readonly reason: string }[];
  expect(listed.map(({ name }) => name)).toEqual(["read", "broken", "twice"]);
  expect(listed.map(({ reason }) => reason)).not.toContain("unloaded");
  await scene.serve(twice);
  const names = (await ask("/v2/models/stats")).body["model_stats"] as { readonly name: string }[];
  expect(names.map(({ name }) => name).toSorted()).toEqual(["broken", "read", "twice"]);
  expect((await ask("/v2/models/read/versions/1")).body).toMatchObject({ name: "read", platform: "ensemble" });
  expect((await ask("/v2/models/read/versions/2")).status).toBe(404);
  Object.assign(counts, { ok: 3, latencyUs: 6_000, "refused.TUTTI_OVERLOADED": 1 });
  const statistics = async () =>
    ((await ask("/v2/models/read/stats")).body["model_stats"] as Record<string, unknown>[])[0]!;
  while ((await statistics())["inference_count"] === 0);
  expect(await statistics()).toMatchObject({
    ...{ name: "read", version: "1", inference_count: 3, execution_count: 3 },
    inference_stats: { success: { count: 3, ns: 6_000_000 }, fail: { count: 1, ns: 0 } },
  });
});

test("JSON in, JSON out, with the id, the outputs that were asked for, and several rows", async () => {
  expect((await post(INFER, { id: "a-1", inputs: [x(1, 2, 3, 4)] })).body).toEqual({
    model_name: "twice",
    model_version: "1",
    id: "a-1",
    outputs: [
      { name: "y", datatype: "FP32", shape: [1, 4], data: [2, 4, 6, 8] },
      { name: "n", datatype: "INT64", shape: [1, 1], data: [10] },
    ],
  });
  const two = await post("/v2/models/twice/versions/1/infer", {
    inputs: [x(1, 2, 3, 4, 5, 6, 7, 8)],
    outputs: [{ name: "n" }],
  });
  expect(two.body["outputs"]).toEqual([{ name: "n", datatype: "INT64", shape: [2, 1], data: [10, 26] }]);
  expect(scene.seen).toHaveLength(3);
  expect(scene.seen[1]?.header("Tutti-Version")).toBe("1");
});

test("with the binary tensor extension, inputs and outputs are raw bytes behind the JSON", async () => {
  const raw = new Uint8Array(Float32Array.of(1, 2, 3, 4).buffer);
  const input = { name: "x", datatype: "FP32", shape: [1, 4], parameters: { binary_data_size: 16 } };
  const all = await postBinary({ inputs: [input], parameters: { binary_data_output: true } }, raw);
  expect(all.type).toBe("application/octet-stream");
  expect(all.head["outputs"]).toEqual([
    { name: "y", datatype: "FP32", shape: [1, 4], parameters: { binary_data_size: 16 } },
    { name: "n", datatype: "INT64", shape: [1, 1], parameters: { binary_data_size: 8 } },
  ]);
  expect([...new Float32Array(all.tail.slice(0, 16).buffer)]).toEqual([2, 4, 6, 8]);
  expect(new BigInt64Array(all.tail.slice(16).buffer)[0]).toBe(10n);
  const outputs = [{ name: "n" }, { name: "y", parameters: { binary_data: true } }];
  const mixed = await postBinary({ inputs: [input], outputs }, raw);
  expect(mixed.head["outputs"]).toMatchObject([{ data: [10] }, { parameters: { binary_data_size: 16 } }]);
  expect(mixed.tail.byteLength).toBe(16);
  expect((await postBinary({ inputs: [input] }, raw)).type).toBe("application/json");
  const short = await postBinary({ inputs: [input] }, raw.subarray(1));
  expect(short.head).toMatchObject({ code: "TUTTI_INVALID_INPUT", retryable: false });
});

test("SLO and application come from parameters or headers, and the answer below the application's own inbox", async () => {
  await post(
    INFER,
    { inputs: [x(1, 2, 3, 4)] },
    { "tutti-slo": "30ms", "tutti-app": "camera", "tutti-priority": "3", "tutti-size": "12.5" },
  );
  await post(INFER, { inputs: [x(1, 2, 3, 4)], parameters: { slo: "40ms", app: "other" } }, { "tutti-slo": "30ms" });
  await post(INFER, { inputs: [x(1, 2, 3, 4)], parameters: { timeout: 70_000 } });
  await post(INFER, { inputs: [x(1, 2, 3, 4)], parameters: { slo: 15 } });
  await post(INFER, { inputs: [x(1, 2, 3, 4)] });
  expect(scene.seen.map(({ subject, header }) => [subject, header("Tutti-Slo")])).toEqual([
    ["infer.twice.camera", "30000us"],
    ["infer.twice.other", "40000us"],
    ["infer.twice.default", "70000us"],
    ["infer.twice.default", "15000us"],
    ["infer.twice.default", "2000000us"],
  ]);
  expect([scene.seen[0]?.header("Tutti-Priority"), scene.seen[0]?.header("Tutti-Size")]).toEqual(["3", "12.5"]);
  expect(scene.seen[0]?.reply).toMatch(/^_INBOX\.camera\.gateway\./);
  for (const [name, value] of Object.entries({
    "tutti-slo": "soon",
    "tutti-app": "a.b",
    "tutti-priority": "300",
    "tutti-size": "-1",
  }))
    expect((await post(INFER, { inputs: [x(1, 2, 3, 4)] }, { [name]: value })).body["error"]).toContain(name);
  expect((await post(INFER, { inputs: [x(1, 2, 3, 4)], parameters: { sequence_id: 4 } })).status).toBe(400);
  expect(scene.seen).toHaveLength(5);
});

test("a refusal keeps its code, its status, and when to come again", async () => {
  scene.react = () => new TuttiError("TUTTI_OVERLOADED", "too much", { retryAfterMs: 1_200 });
  const refused = await post(INFER, { inputs: [x(1, 2, 3, 4)] });
  expect(refused.status).toBe(503);
  expect(refused.headers.get("retry-after")).toBe("2");
  expect(refused.body).toEqual({ error: "too much", code: "TUTTI_OVERLOADED", retryable: true, retryAfterMs: 1_200 });
  scene.react = () => new TuttiError("TUTTI_DEADLINE_EXCEEDED", "late");
  expect((await post(INFER, { inputs: [x(1, 2, 3, 4)] })).status).toBe(504);
});

test("503 is for what may be sent again, and 422 for what would fail again", async () => {
  const statusOf = async (error: TuttiError): Promise<[number, string | null]> => {
    scene.react = () => error;
    const { status, headers } = await post(INFER, { inputs: [x(1, 2, 3, 4)] });
    return [status, headers.get("retry-after")];
  };
  const busy = { retryable: true, retryAfterMs: 3_000 };
  expect(await statusOf(new TuttiError("TUTTI_DEADLINE_INFEASIBLE", "never"))).toEqual([422, null]);
  expect(await statusOf(new TuttiError("TUTTI_DEADLINE_INFEASIBLE", "busy", busy))).toEqual([503, "3"]);
  expect(await statusOf(new TuttiError("TUTTI_NOT_READY", "loading"))).toEqual([503, null]);
  expect(await statusOf(new TuttiError("TUTTI_NOT_READY", "failed", { retryable: false }))).toEqual([422, null]);
});

test("what can't be served is refused with the reason, and the next request is served (T8)", async () => {
  const code = async (path: string, body: unknown, headers = {}): Promise<unknown[]> => {
    const { status, body: said } = await post(path, body, headers);
    return [status, said["code"]];
  };
  expect(await code("/v2/models/nobody/infer", { inputs: [x(1, 2, 3, 4)] })).toEqual([404, "TUTTI_NOT_FOUND"]);
  expect(await code("/v2/models/twice/versions/9/infer", {})).toEqual([404, "TUTTI_NOT_FOUND"]);
  expect(await code("/v2/models/a.b/infer", {})).toEqual([400, "TUTTI_INVALID_INPUT"]);
  expect(await code(INFER, "{")).toEqual([400, "TUTTI_INVALID_INPUT"]);
  expect(await code(INFER, { inputs: [x(1, 2, 3, 4), x(1, 2, 3, 4)] })).toEqual([400, "TUTTI_INVALID_INPUT"]);
  expect(await code(INFER, {}, { "inference-header-content-length": "99" })).toEqual([400, "TUTTI_INVALID_INPUT"]);
  expect(await code(INFER, {}, { "content-encoding": "br" })).toEqual([400, "TUTTI_INVALID_INPUT"]);
  expect(await code(INFER, {}, { "content-encoding": "gzip" })).toEqual([400, "TUTTI_INVALID_INPUT"]);
  expect(await code("/v2/nothing", {})).toEqual([404, "TUTTI_NOT_FOUND"]);
  const wrong = await post("/v2/health/live", {});
  expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "GET"]);
  expect((await post(INFER, { inputs: [x(1, 2, 3, 4)] })).status).toBe(200);
});

test("a compressed body is read, and neither it nor a plain one beyond the limit", async () => {
  const send = (body: Uint8Array<ArrayBuffer>, encoding: string): Promise<Response> =>
    fetch(scene.addresses.http + INFER, { method: "POST", body, headers: { "content-encoding": encoding } });
  const small = gzipSync(JSON.stringify({ inputs: [x(1, 2, 3, 4)] }));
  expect((await send(new Uint8Array(small), "gzip")).status).toBe(200);
  const bomb = gzipSync(Buffer.alloc(BODY_BYTES_MAX + 1));
  expect((await send(new Uint8Array(bomb), "gzip")).status).toBe(413);
  const declared = connect(Number(new URL(scene.addresses.http).port), "127.0.0.1");
  declared.write(`POST ${INFER} HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${BODY_BYTES_MAX + 1}\r\n\r\n`);
  const [answer] = (await once(declared, "data")) as [Buffer];
  expect(answer.toString()).toContain("413");
  declared.destroy();
});

test("JSON beyond 64 KB is read beside the main thread, to the same tensors, and its faults are the same", async () => {
  const wide = { inputs: [x(1, 2, 3, 4)], parameters: { padding: "x".repeat(100_000) } };
  // The first one waits for the thread that reads it, which takes seconds to start on a busy machine.
  const answer = await post(INFER, wide, { "tutti-slo": "1m" });
  expect(answer.body["outputs"]).toMatchObject([{ data: [2, 4, 6, 8] }, { data: [10] }]);
  const refused = await post(INFER, { ...wide, inputs: [{ ...x(1, 2, 3, 4), datatype: "BYTES" }] });
  expect(refused.body["error"]).toContain("BYTES");
});

test("pages of other sites are refused, and those of this one are not", async () => {
  const from = (origin: string): Promise<Answer> => post(INFER, { inputs: [x(1, 2, 3, 4)] }, { origin });
  expect((await from("https://example.org")).body["code"]).toBe("TUTTI_FORBIDDEN");
  expect((await from("null")).status).toBe(403);
  expect((await from(scene.addresses.http)).status).toBe(200);
  expect(scene.seen).toHaveLength(1);
});

test("who goes away takes the request back", async () => {
  scene.react = () => undefined;
  const gone = new AbortController();
  const asked = fetch(scene.addresses.http + INFER, {
    method: "POST",
    body: JSON.stringify({ inputs: [x(1, 2, 3, 4)] }),
    signal: gone.signal,
  });
  await scene.until(() => scene.seen.length === 1);
  gone.abort();
  await expect(asked).rejects.toThrow();
  await scene.until(() => scene.cancelled.length === 1);
  expect(scene.cancelled).toEqual([scene.seen[0]?.reply]);
});

test("when one row fails, the others are taken back", async () => {
  scene.react = () => (scene.seen.length === 2 ? new TuttiError("TUTTI_DEADLINE_INFEASIBLE", "never") : undefined);
  const refused = await post(INFER, { inputs: [x(1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9)] });
  expect(refused.body["code"]).toBe("TUTTI_DEADLINE_INFEASIBLE");
  await scene.until(() => scene.cancelled.length === 2);
});

const index = (body: unknown = ""): Promise<Answer> => post("/v2/repository/index", body);

test("the index of the repository needs no right, and may be of what is ready alone", async () => {
  await scene.serve({ ...twice, name: "broken" }, "quarantined");
  const ready = { name: "twice", version: "1", state: "READY", reason: "" };
  expect((await index()).body).toEqual([expect.objectContaining({ name: "broken", state: "UNAVAILABLE" }), ready]);
  expect((await index({ ready: false })).body).toHaveLength(2);
  expect((await index({ ready: true })).body).toEqual([ready]);
  for (const wrong of [{ ready: 1 }, [], "3", "{"]) expect((await index(wrong)).status).toBe(400);
});

test("models are loaded and unloaded with the admin token alone", async () => {
  for (const verb of ["load", "unload"])
    for (const headers of [{}, { authorization: "Bearer wrong" }, { authorization: TOKEN }]) {
      const refused = await post(`/v2/repository/models/twice/${verb}`, {}, headers);
      expect([refused.status, refused.body["code"]]).toEqual([401, "TUTTI_UNAUTHENTICATED"]);
      expect(refused.headers.get("www-authenticate")).toBe('Bearer realm="tutti"');
    }
  const authorization = `Bearer ${TOKEN}`;
  expect((await post("/v2/repository/models/twice/load", {}, { authorization })).status).toBe(200);
  for (const verb of ["load", "unload"])
    expect((await post(`/v2/repository/models/nobody/${verb}`, {}, { authorization })).status).toBe(404);
  const junk = { parameters: { "file:1/model.onnx": "bm8gbW9kZWw=" } };
  expect((await post("/v2/repository/models/junk/load", junk, { authorization })).status).toBe(400);
  expect((await index()).body).toEqual([{ name: "twice", version: "1", state: "READY", reason: "" }]);
});

test("a model that was unloaded stays in the index, and its name alone loads it again", async () => {
  const authorization = `Bearer ${TOKEN}`;
  for (let i = 0; i < 2; i++)
    // The second time it is unloaded already.
    expect((await post("/v2/repository/models/twice/unload", {}, { authorization })).status).toBe(200);
  const gone = { name: "twice", version: "1", state: "UNAVAILABLE", reason: "unloaded" };
  expect([(await index()).body, (await index({ ready: true })).body]).toEqual([[gone], []]);
  expect((await fetch(`${scene.addresses.http}/v2/models/twice/ready`)).status).toBe(404);
  const loading = post("/v2/repository/models/twice/load", {}, { authorization });
  while ((await scene.registry.get("twice")) === undefined) await scene.turn();
  await scene.serve(twice);
  expect((await loading).status).toBe(200);
  expect((await index()).body).toEqual([{ ...gone, state: "READY", reason: "" }]);
});

test("without an admin token nobody changes anything", async () => {
  const closed = await GatewayScene.open({ adminToken: undefined });
  const headers = { authorization: "Bearer " };
  const response = await fetch(`${closed.addresses.http}/v2/repository/models/twice/unload`, {
    ...{ method: "POST", headers },
  });
  expect(response.status).toBe(403);
  expect(await response.json()).toMatchObject({ error: expect.stringContaining("--admin-token") as unknown });
  await closed.close();
});

test("reading a long body is taken from the SLO, and one that can't be read within it is refused", async () => {
  const long = { inputs: [x(1, 2, 3, 4)], parameters: { padding: "x".repeat(100_000) } };
  expect((await post(INFER, long, { "tutti-slo": "10s" })).status).toBe(200);
  const left = Number(scene.seen[0]?.header("Tutti-Slo")?.replace("us", ""));
  expect(left).toBeLessThan(10_000_000);
  expect(left).toBeGreaterThan(1_000_000);
  const late = await post(INFER, long, { "tutti-slo": "1us" });
  expect([late.status, late.body["code"]]).toEqual([504, "TUTTI_DEADLINE_EXCEEDED"]);
  expect(scene.seen).toHaveLength(1);
});

test("a question about the index is short, and a longer one is refused before it is parsed", async () => {
  expect(await index(`{"ready":false,"x":"${"x".repeat(8_000)}"}`)).toMatchObject({ status: 200 });
  expect(await index(`{"ready":false,"x":[${Array(8_000).fill("1").join()}]}`)).toMatchObject({ status: 413 });
});
