/** Pictures are visible from their first byte: in spans, in metrics and in their SLO. */
import { request } from "node:http";
import { presentationOf } from "@tutti/onnx-tools";
import { RecordingTelemetry } from "@tutti/ports/telemetry";
import sharp from "sharp";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { sloClass } from "../metrics/label-budget.ts";
import { samplesOf, valueOf } from "../testing/exposition.ts";
import { GatewayScene, answerTwice, twice } from "../testing/gateway-scene.ts";

const telemetry = new RecordingTelemetry();
const INPUT = {
  ...{ kind: "image", tensor: "x", resize: "stretch", height: 2, width: 3, order: "rgb" },
  ...{ mean: [0, 0, 0], std: [1, 1, 1] },
} as const;
let scene: GatewayScene;
let picture: Buffer;
beforeAll(async () => {
  scene = await GatewayScene.open({}, telemetry);
  const presentation = { input: INPUT };
  expect(presentationOf(presentation).input).toEqual(INPUT);
  await scene.serve({ ...twice, name: "see", presentation });
  const create = { width: 30, height: 20, channels: 3, background: { r: 255, g: 51, b: 0 } } as const;
  picture = await sharp({ create }).png().toBuffer();
});
beforeEach(() => {
  scene.react = answerTwice;
  telemetry.spans.length = 0;
});
afterAll(() => scene.close());

const post = (slo: string, body: Buffer = picture): Promise<Response> =>
  fetch(`${scene.addresses.http}/v2/models/see/infer`, {
    method: "POST",
    body: new Uint8Array(body),
    headers: { "content-type": "image/png", "tutti-slo": slo, "tutti-app": "camera" },
  });
const count = async (name: string, labels: Record<string, string>): Promise<number> =>
  valueOf(samplesOf(await (await fetch(`${scene.addresses.metrics}/metrics`)).text()), name, labels) ?? 0;
const requests = (outcome: string, slo: string): Promise<number> =>
  count("tutti_gateway_requests_total", { model: "see", app: "camera", slo_class: slo, outcome });

test("decoding is a span within the request's, and counts in its duration and under the SLO that was asked for", async () => {
  expect((await post("5s")).status).toBe(200);
  const [whole] = telemetry.spansNamed("gateway see");
  const [decode] = telemetry.spansNamed("decode");
  expect(decode!.options.parent).toEqual(whole!.context);
  expect(decode!.options.at).toBeGreaterThanOrEqual(whole!.options.at);
  expect(decode!.endedAt).toBeGreaterThan(decode!.options.at);
  expect(decode!.endedAt).toBeLessThanOrEqual(whole!.endedAt!);
  expect(telemetry.spansNamed("receive")).toHaveLength(1);
  expect(await requests("ok", "5s")).toBe(1);
  expect(await count("tutti_gateway_decode_seconds_count", { model: "see" })).toBe(1);
});

test("a picture that can't be decoded, or not in time, is a refused request with its span and figures", async () => {
  const decoded = await count("tutti_gateway_decode_seconds_count", { model: "see" });
  const late = await post("1us");
  expect([late.status, ((await late.json()) as { error: string }).error]).toEqual([
    504,
    "it was not received and decoded within 0.001 ms",
  ]);
  expect((await post("5s", picture.subarray(0, 40))).status).toBe(400);
  const ended = telemetry.spansNamed("gateway see");
  expect(ended.map(({ events }) => events[0]?.attributes["code"])).toEqual([
    "TUTTI_DEADLINE_EXCEEDED",
    "TUTTI_INVALID_INPUT",
  ]);
  expect(telemetry.spansNamed("decode")).toHaveLength(2);
  expect(await requests("TUTTI_DEADLINE_EXCEEDED", sloClass(1e-6))).toBe(1);
  expect(await requests("TUTTI_INVALID_INPUT", "5s")).toBe(1);
  expect(await count("tutti_gateway_decode_seconds_count", { model: "see" })).toBe(decoded + 2);
});

test("the SLO counts from the first byte, also where the rest of a picture comes slowly", async () => {
  const answer = new Promise<string>((resolve, reject) => {
    const sent = request(
      `${scene.addresses.http}/v2/models/see/infer`,
      {
        method: "POST",
        headers: { "content-type": "image/png", "content-length": picture.length, "tutti-slo": "150ms" },
      },
      (response) => void response.setEncoding("utf8").on("data", resolve),
    );
    sent.on("error", reject);
    sent.write(picture.subarray(0, 10));
    setTimeout(() => sent.end(picture.subarray(10)), 200);
  });
  expect(JSON.parse(await answer)).toMatchObject({
    code: "TUTTI_DEADLINE_EXCEEDED",
    error: "it was not received and decoded within 150 ms",
  });
});
