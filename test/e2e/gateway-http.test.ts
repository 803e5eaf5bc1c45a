/** The gateway among real processes: a real model over HTTP. */
import { generateAddOne, generateCnn, writeWav } from "@tutti/onnx-tools";
import sharp from "sharp";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type GatewayCluster, TOKEN, startGatewayCluster } from "./gateway-cluster.ts";

let cluster: GatewayCluster;
beforeAll(async () => {
  cluster = await startGatewayCluster();
}, 300_000);
afterAll(() => cluster?.stop());

type Body = Record<string, unknown>;
interface Answer {
  readonly status: number;
  readonly body: Body;
}
interface Output {
  readonly shape: number[];
  readonly data: number[];
}
async function post(path: string, body: object, headers: Record<string, string> = {}): Promise<Answer> {
  const response = await fetch(cluster.http + path, { method: "POST", body: JSON.stringify(body), headers });
  return { status: response.status, body: (await response.json()) as Body };
}
const INFER = "/v2/models/add-one/infer";
const x = (...data: number[]): object => ({
  inputs: [{ name: "x", shape: [data.length / 4, 4], datatype: "FP32", data }],
});
const AS_E2E = { "tutti-app": "e2e" };

test("a cluster that serves says so, on loopback", async () => {
  expect((await fetch(`${cluster.http}/v2/health/ready`)).status).toBe(200);
  expect((await fetch(`${cluster.http}/v2/models/add-one/ready`)).status).toBe(200);
  expect(cluster.http).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  expect(cluster.grpc).toMatch(/^127\.0\.0\.1:\d+$/);
});

test("JSON, binary tensors and several rows give what the model says", async () => {
  const one = await post(INFER, x(1, 2, 3, 4), AS_E2E);
  expect(one.status, JSON.stringify(one.body)).toBe(200);
  expect((one.body["outputs"] as Output[])[0]).toMatchObject({ shape: [1, 4], data: [2, 3, 4, 5] });

  const three = await post(INFER, x(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), AS_E2E);
  expect((three.body["outputs"] as Output[])[0]).toMatchObject({
    shape: [3, 4],
    data: [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13],
  });

  const input = { name: "x", shape: [1, 4], datatype: "FP32", parameters: { binary_data_size: 16 } };
  const head = Buffer.from(JSON.stringify({ inputs: [input], parameters: { binary_data_output: true } }));
  const response = await fetch(cluster.http + INFER, {
    method: "POST",
    body: Buffer.concat([head, new Uint8Array(Float32Array.of(1, 2, 3, 4).buffer)]),
    headers: { ...AS_E2E, "inference-header-content-length": String(head.byteLength) },
  });
  const bytes = new Uint8Array(await response.arrayBuffer());
  const at = Number(response.headers.get("inference-header-content-length"));
  expect([...new Float32Array(bytes.slice(at).buffer)]).toEqual([2, 3, 4, 5]);
});

test("a sound that can't be read is listed as refused, and found by its trace", async () => {
  const trace = "4bf92f3577b34da6a3ce929d0e0e4736";
  const response = await fetch(cluster.http + INFER, {
    method: "POST",
    body: new Uint8Array(100),
    headers: { ...AS_E2E, "content-type": "audio/wav", traceparent: `00-${trace}-00f067aa0ba902b7-01` },
  });
  expect(response.status, await response.text()).toBe(400);
  const { code, stdout, stderr } = await cluster.up.command("refusals", "--request", trace, "--json");
  expect([code, stderr]).toEqual([0, ""]);
  const { requests } = JSON.parse(stdout) as { readonly requests: readonly object[] };
  expect(requests).toMatchObject([{ app: "e2e", traceId: trace, cause: "TUTTI_INVALID_INPUT", by: "ingress" }]);
});

test("the time that requests wait for each other is in statistics, Triton's metric and the histogram", async () => {
  const rows = Array.from({ length: 40 }, () => post(INFER, x(1, 2, 3, 4), AS_E2E));
  for (const { status } of await Promise.all(rows)) expect(status).toBe(200);
  const scrape = async (): Promise<string> => (await fetch(`${cluster.metrics}/metrics`)).text();
  const valueOf = (text: string, name: string): number =>
    Number(new RegExp(`^${name}\\{model="add-one"[^}]*\\} (.+)$`, "m").exec(text)?.[1]);
  // Actors report once a second.
  let text = await scrape();
  while (!(valueOf(text, "nv_inference_queue_duration_us") > 0)) text = await scrape();
  expect(valueOf(text, "tutti_gateway_queue_seconds_count")).toBeGreaterThanOrEqual(40);
  expect(valueOf(text, "tutti_gateway_queue_seconds_sum")).toBeGreaterThan(0.04); // a run takes a millisecond and more
  expect(valueOf(text, "tutti_gateway_batch_size_count")).toBeGreaterThanOrEqual(40);
  const { model_stats: stats } = (await (await fetch(`${cluster.http}/v2/models/add-one/stats`)).json()) as {
    readonly model_stats: {
      readonly inference_stats: Record<string, { readonly count: number; readonly ns: number }>;
    }[];
  };
  const { queue, success } = stats[0]!.inference_stats;
  expect(queue!.count).toBe(success!.count);
  expect(queue!.ns).toBeGreaterThan(0);
  expect(queue!.ns).toBeLessThan(success!.ns);
});

async function postFile(path: string, type: string, body: Uint8Array<ArrayBuffer>): Promise<Answer> {
  const headers = { ...AS_E2E, "content-type": type, "tutti-slo": "60s" };
  const response = await fetch(cluster.http + path, { method: "POST", body, headers });
  return { status: response.status, body: (await response.json()) as Body };
}

test("a sound and a picture are posted as files, and answered as the tensors that they become", async () => {
  const wav = writeWav({ sampleRate: 8_000, samples: Float32Array.of(0.5, -0.25, 0.125) });
  const heard = await postFile(INFER, "audio/wav", wav);
  expect(heard.status, JSON.stringify(heard.body)).toBe(200);
  expect((heard.body["outputs"] as Output[])[0]).toMatchObject({ shape: [1, 4], data: [1.5, 0.75, 1.125, 1] });

  const file = Buffer.from(generateCnn()).toString("base64");
  const config = JSON.stringify({ slo: "10s", preprocess: { image: { mean: 0.5, std: 0.5 } } });
  const load = { parameters: { "file:1/model.onnx": file, config } };
  const loaded = await post("/v2/repository/models/see/load", load, { authorization: `Bearer ${TOKEN}` });
  expect(loaded.status, JSON.stringify(loaded.body)).toBe(200);
  const background = { r: 255, g: 0, b: 51 };
  const drawn = await sharp({ create: { width: 64, height: 48, channels: 3, background } })
    .png()
    .toBuffer();
  const seen = await postFile("/v2/models/see/infer", "image/png", new Uint8Array(drawn));
  expect(seen.status, JSON.stringify(seen.body)).toBe(200);
  const data = [255, 0, 51].flatMap((byte) => new Array<number>(32 * 32).fill((byte / 255 - 0.5) / 0.5));
  const tensor = { name: "image", shape: [1, 3, 32, 32], datatype: "FP32", data };
  const same = await post("/v2/models/see/infer", { inputs: [tensor] }, { ...AS_E2E, "tutti-slo": "60s" });
  const [ofPicture, ofTensor] = [seen, same].map(({ body }) => (body["outputs"] as Output[])[0]!.data);
  ofTensor!.forEach((probability, i) => expect(ofPicture![i]).toBeCloseTo(probability, 5));
  const refused = await postFile("/v2/models/see/infer", "audio/wav", wav);
  expect([refused.status, refused.body["error"]]).toEqual([400, expect.stringContaining("preprocess: {audio:")]);
});

test("an SLO that can't be met is refused at once, with what would be feasible", async () => {
  const ask = (): Promise<Answer> => post(INFER, x(1, 2, 3, 4), { "tutti-slo": "10us" });
  let { status, body } = await ask();
  // An answer that a busy machine delays by 60 ms counts as lost, and as retryable (T1).
  while (body["code"] === "TUTTI_UNAVAILABLE") ({ status, body } = await ask());
  expect([status, body["code"]]).toEqual([422, "TUTTI_DEADLINE_INFEASIBLE"]);
  expect(body["error"]).toContain("would be feasible");
});

test("a model is loaded over HTTP by who has the token, asked, and unloaded", async () => {
  const authorization = `Bearer ${TOKEN}`;
  const file = Buffer.from(generateAddOne()).toString("base64");
  // The answer to /config is a configuration, with keys of Triton's repositories too.
  const { name: _, ...told } = (await (await fetch(`${cluster.http}/v2/models/add-one/config`)).json()) as Body;
  const config = JSON.stringify({
    ...told,
    dynamic_batching: { max_queue_delay_microseconds: 100 },
    instance_group: [],
  });
  const load = { parameters: { "file:1/model.onnx": file, config } };
  expect((await post("/v2/repository/models/other/load", load)).status).toBe(401);
  const loaded = await post("/v2/repository/models/other/load", load, { authorization });
  expect(loaded.status, JSON.stringify(loaded.body)).toBe(200);
  const asked = await post("/v2/models/other/infer", x(41, 0, 0, 0), AS_E2E);
  expect((asked.body["outputs"] as Output[])[0]?.data[0]).toBe(42);
  expect((await post("/v2/repository/models/other/unload", {}, { authorization })).status).toBe(200);
  // The gateway learns of it from the store, as all actors do.
  while ((await fetch(`${cluster.http}/v2/models/other`)).status !== 404);
});

test("statistics count each row that was answered, and no other", async () => {
  const authorization = `Bearer ${TOKEN}`;
  const file = Buffer.from(generateAddOne()).toString("base64");
  const load = { parameters: { "file:1/model.onnx": file, config: JSON.stringify({ slo: "10s" }) } };
  const loaded = await post("/v2/repository/models/counted/load", load, { authorization });
  expect(loaded.status, JSON.stringify(loaded.body)).toBe(200);
  const count = async (): Promise<number> => {
    const response = await fetch(`${cluster.http}/v2/models/counted/stats`);
    const body = (await response.json()) as { model_stats: { inference_count: number }[] };
    return body.model_stats[0]?.inference_count ?? 0;
  };
  const ask = async (...values: number[]): Promise<number> =>
    (await post("/v2/models/counted/infer", x(...values), AS_E2E)).status;
  const statuses = await Promise.all([ask(1, 2, 3, 4, 5, 6, 7, 8), ask(1, 2, 3, 4), ask(1, 2, 3, 4), ask(1)]);
  expect(statuses).toEqual([200, 200, 200, 400]);
  // Actors report once a second.
  while ((await count()) < 4) await cluster.up.next("status", undefined, cluster.up.events.length);
  await cluster.up.next("status", undefined, cluster.up.events.length);
  expect(await count()).toBe(4);
});
