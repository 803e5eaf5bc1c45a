/** A gateway that asks for keys, over real sockets: permissions, and the lines in the log. */
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Client, Metadata, type ServiceError, credentials, makeClientConstructor, status } from "@grpc/grpc-js";
import { type ApiKey, type ApiKeys, createApiKey } from "@tutti/admin/api-keys";
import { RecordingTelemetry } from "@tutti/ports/telemetry";
import { service as healthService } from "grpc-health-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { inferenceService } from "../grpc/grpc-front.ts";
import { GatewayScene, TOKEN } from "../testing/gateway-scene.ts";

const INFER = "/v2/models/twice/infer";
const BODY = { inputs: [{ name: "x", datatype: "FP32", shape: [1, 4], data: [1, 2, 3, 4] }] };
const key = (app: string, isAdmin = false, expiresAt?: number) => createApiKey(app, { isAdmin, expiresAt });
const [shop, camera, admin] = [key("shop"), key("camera"), key("operations", true)];
const ended = key("shop", false, Math.floor(Date.now() / 1_000) - 1);

let folder: string;
let scene: GatewayScene;
let client: Client;
const telemetry = new RecordingTelemetry();

function writeKeys(keys: readonly ApiKey[], quotas: ApiKeys["quotas"] = {}): void {
  const path = join(folder, "api-keys.json");
  writeFileSync(`${path}.new`, JSON.stringify({ version: 1, keys, quotas }));
  renameSync(`${path}.new`, path);
}

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "tutti-access-"));
  telemetry.logs.length = 0;
  writeKeys([shop.key, camera.key, admin.key, ended.key]);
  const access = { apiKeys: join(folder, "api-keys.json"), lookEveryMs: 20 };
  scene = await GatewayScene.open({ access }, telemetry);
  client = new (inferenceService())(scene.addresses.grpc, credentials.createInsecure());
});
afterEach(async () => {
  client.close();
  await scene.close();
  rmSync(folder, { recursive: true });
});

const bearer = (text: string): Record<string, string> => ({ authorization: `Bearer ${text}` });

async function ask(path: string, headers: Record<string, string> = {}, body?: unknown) {
  const method = body === undefined ? "GET" : "POST";
  const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) };
  const response = await fetch(scene.addresses.http + path, init);
  const text = await response.text();
  const answer = text.startsWith("{") ? (JSON.parse(text) as Record<string, unknown>) : {};
  return { status: response.status, headers: response.headers, body: answer };
}
const infer = (headers: Record<string, string>, body: object = BODY) => ask(INFER, headers, body);

function call(
  name: string,
  metadata: Record<string, string> = {},
  message: object = {},
  asked: Client = client,
): Promise<unknown> {
  type Unary = (
    message: object,
    metadata: Metadata,
    done: (error: ServiceError | null, answer: unknown) => void,
  ) => void;
  const method = (asked as unknown as Record<string, Unary>)[name]!.bind(asked);
  return new Promise((resolve, reject) => {
    method(message, Metadata.fromHttp2Headers(metadata), (error, answer) =>
      error === null ? resolve(answer) : reject(error),
    );
  });
}
const codeOf = (calling: Promise<unknown>): Promise<status> =>
  calling.then(
    () => status.OK,
    (error: ServiceError) => error.code,
  );
const MESSAGE = {
  model_name: "twice",
  inputs: [{ name: "x", datatype: "FP32", shape: [1, 4], contents: { fp32_contents: [1, 2, 3, 4] } }],
};

test("an application asks with its key in its own name, which it need not say, and with no other", async () => {
  expect((await infer(bearer(shop.text))).status).toBe(200);
  expect((await infer({ ...bearer(shop.text), "tutti-app": "shop" })).status).toBe(200);
  expect(scene.seen.map(({ subject }) => subject)).toEqual(["infer.twice.shop", "infer.twice.shop"]);
  const other = await infer({ ...bearer(shop.text), "tutti-app": "camera" });
  expect([other.status, other.body["code"]]).toEqual([403, "TUTTI_FORBIDDEN"]);
  expect((await infer(bearer(shop.text), { ...BODY, parameters: { app: "camera" } })).status).toBe(403);
  // Parameters win over headers, so the header alone does not change the application.
  const both = await infer({ ...bearer(shop.text), "tutti-app": "camera" }, { ...BODY, parameters: { app: "shop" } });
  expect(both.status).toBe(200);
  const picture = await fetch(scene.addresses.http + INFER, {
    method: "POST",
    body: new Uint8Array(8),
    headers: { ...bearer(shop.text), "tutti-app": "camera", "content-type": "image/png" },
  });
  expect(picture.status).not.toBe(200);
  expect(scene.seen.every(({ subject }) => subject === "infer.twice.shop")).toBe(true);
});

test("without a key, or with one that is not good, nobody gets more than whether the gateway lives", async () => {
  for (const headers of [
    {},
    bearer(`${shop.text.slice(0, -1)}${shop.text.endsWith("A") ? "B" : "A"}`),
    bearer(ended.text),
    bearer(shop.key.sha256),
    bearer(shop.key.id),
    bearer(""),
    { authorization: shop.text },
    { authorization: `Basic ${shop.text}` },
  ] as Record<string, string>[]) {
    const { status: code, body, headers: answered } = await infer(headers);
    expect([code, body["code"]], JSON.stringify(headers)).toEqual([401, "TUTTI_UNAUTHENTICATED"]);
    expect(answered.get("www-authenticate")).toMatch(/^Bearer/);
    for (const path of ["/v2", "/v2/models/twice", "/v2/models/stats", "/openapi.json", "/scaling", "/console/feed"])
      expect((await ask(path, headers)).status, path).toBe(401);
  }
  expect((await ask("/v2/health/live")).status).toBe(200);
  expect(await ask("/v2/health/ready")).toMatchObject({ status: 503, body: { ready: false, missing: [] } });
  expect(scene.seen).toEqual([]);
});

test("a body without a key is not read", async () => {
  const answered = await new Promise<number>((resolve, reject) => {
    const asked = request(scene.addresses.http + INFER, { method: "POST", headers: { "content-length": 1_000_000 } });
    asked.on("response", (response) => resolve(response.statusCode ?? 0)).on("error", reject);
    asked.flushHeaders();
  });
  expect(answered).toBe(401);
});

test("over gRPC it is the same, for single calls and within streams", async () => {
  expect(await codeOf(call("ModelInfer", bearer(shop.text), MESSAGE))).toBe(status.OK);
  expect(scene.seen.at(-1)?.subject).toBe("infer.twice.shop");
  expect(await codeOf(call("ModelInfer", {}, MESSAGE))).toBe(status.UNAUTHENTICATED);
  expect(await codeOf(call("ModelInfer", bearer(ended.text), MESSAGE))).toBe(status.UNAUTHENTICATED);
  const other = { ...bearer(shop.text), "tutti-app": "camera" };
  expect(await codeOf(call("ModelInfer", other, MESSAGE))).toBe(status.PERMISSION_DENIED);
  for (const name of ["ServerMetadata", "ModelMetadata", "ModelStatistics", "RepositoryIndex"])
    expect(await codeOf(call(name)), name).toBe(status.UNAUTHENTICATED);
  for (const name of ["ServerLive", "ServerReady"]) expect(await codeOf(call(name)), name).toBe(status.OK);
  const health = new (makeClientConstructor(healthService, "Health"))(
    scene.addresses.grpc,
    credentials.createInsecure(),
  );
  expect(await codeOf(call("Check", {}, { service: "liveness" }, health))).toBe(status.OK);
  expect(await codeOf(call("List", {}, {}, health))).toBe(status.UNAUTHENTICATED);
  health.close();
  expect(await streamed({})).toBe(status.UNAUTHENTICATED);
  expect(await streamed(bearer(camera.text))).toMatchObject({ error_message: "" });
  expect(scene.seen.at(-1)?.subject).toBe("infer.twice.camera");
});

/** The first answer of a stream, or the code of its end. */
function streamed(metadata: Record<string, string>): Promise<unknown> {
  const open = (client as unknown as Record<string, (metadata: Metadata) => NodeJS.ReadWriteStream>)[
    "ModelStreamInfer"
  ]!;
  const stream = open.call(client, Metadata.fromHttp2Headers(metadata));
  return new Promise((resolve) => {
    stream.on("data", (answer: unknown) => {
      stream.end();
      resolve(answer);
    });
    stream.on("error", (error: unknown) => resolve((error as ServiceError).code));
    (stream as unknown as { write(message: object): void }).write(MESSAGE);
  });
}

test("keys that are made and revoked count within a moment, without a restart", async () => {
  const late = key("late");
  expect((await infer(bearer(late.text))).status).toBe(401);
  writeKeys([late.key]);
  await expect.poll(async () => (await infer(bearer(late.text))).status).toBe(200);
  // Also where the key was accepted before.
  expect((await infer(bearer(shop.text))).status).toBe(401);
  writeFileSync(join(folder, "api-keys.json"), "{");
  await expect.poll(() => telemetry.texts("error")).toContain("API keys stay as they were");
  expect((await infer(bearer(late.text))).status).toBe(200);
});

test("a console that is open when its key is revoked is told nothing more, and others stay open", async () => {
  const second = createApiKey("operations", { isAdmin: true, expiresAt: undefined });
  writeKeys([admin.key, second.key]);
  const follow = async (text: string) => {
    await expect.poll(async () => (await ask("/console/none", bearer(text))).status, { timeout: 5_000 }).toBe(404);
    const response = await fetch(`${scene.addresses.http}/console/feed`, { headers: bearer(text) });
    expect(response.status).toBe(200);
    const feed = { isOpen: true };
    const read = async (): Promise<void> => {
      for await (const _ of response.body!) continue;
    };
    const ended = read()
      .catch(() => undefined)
      .finally(() => (feed.isOpen = false));
    return Object.assign(feed, { ended });
  };
  const [revoked, kept] = [await follow(admin.text), await follow(second.text)];
  writeKeys([second.key]);
  await revoked.ended;
  expect(kept.isOpen).toBe(true);
});

test("a quota that is used up is 429 and says when to come again, over gRPC RESOURCE_EXHAUSTED", async () => {
  writeKeys([shop.key, camera.key], { shop: { requestsPerSecond: 1 }, camera: { bytesInFlight: 200 } });
  await expect.poll(() => telemetry.texts("info")).toContain("API keys were read again");
  expect((await infer(bearer(shop.text))).status).toBe(200);
  const refused = await infer(bearer(shop.text));
  expect([refused.status, refused.body["code"]]).toEqual([429, "TUTTI_QUOTA_EXCEEDED"]);
  expect(Number(refused.headers.get("retry-after"))).toBe(1);
  const failed = await call("ModelInfer", bearer(shop.text), MESSAGE).catch((error: unknown) => error as ServiceError);
  expect(failed).toMatchObject({ code: status.RESOURCE_EXHAUSTED });
  expect((failed as ServiceError).metadata.get("tutti-code")).toEqual(["TUTTI_QUOTA_EXCEEDED"]);
  expect(Number((failed as ServiceError).metadata.get("grpc-retry-pushback-ms")[0])).toBeGreaterThan(0);
  // A body in flight counts, until the request ends.
  scene.react = () => undefined;
  const stop = new AbortController();
  const waiting = fetch(scene.addresses.http + INFER, {
    ...{ method: "POST", body: JSON.stringify(BODY), headers: bearer(camera.text), signal: stop.signal },
  }).catch(() => undefined);
  await scene.until(() => scene.seen.some(({ subject }) => subject.endsWith("camera")));
  const padded = { ...BODY, id: "x".repeat(100) };
  expect((await infer(bearer(camera.text), padded)).status).toBe(429);
  stop.abort();
  await waiting;
  const { react } = new GatewayScene();
  scene.react = react;
  await expect.poll(async () => (await infer(bearer(camera.text), padded)).status).toBe(200);
  expect((await infer(bearer(camera.text), { ...BODY, id: "x".repeat(300) })).status).toBe(413);
});

test("models are changed by administrators alone, and each that tries leaves a line that says who", async () => {
  const unload = (headers: Record<string, string>) => ask("/v2/repository/models/nobody/unload", headers, {});
  expect((await unload({})).status).toBe(401);
  expect((await unload(bearer(shop.text))).status).toBe(403);
  expect((await unload(bearer(admin.text))).status).toBe(404); // allowed, but no such model exists
  expect((await unload(bearer(TOKEN))).status).toBe(404);
  expect(await codeOf(call("RepositoryModelUnload", bearer(shop.text), { model_name: "nobody" }))).toBe(
    status.PERMISSION_DENIED,
  );
  expect(await codeOf(call("RepositoryModelUnload", bearer(admin.text), { model_name: "twice" }))).toBe(status.OK);
  const audit = telemetry.logs.filter(({ fields }) => fields["audit"] === "administration").map(({ fields }) => fields);
  const ends = audit.filter(({ outcome }) => outcome !== "begun");
  expect(ends.map(({ who, what, outcome }) => [who, what, outcome])).toEqual([
    [`key ${shop.key.id} of shop`, "unload nobody", "TUTTI_FORBIDDEN"],
    [`key ${admin.key.id} of operations`, "unload nobody", "TUTTI_NOT_FOUND"],
    ["admin token", "unload nobody", "TUTTI_NOT_FOUND"],
    [`key ${shop.key.id} of shop`, "unload nobody", "TUTTI_FORBIDDEN"],
    [`key ${admin.key.id} of operations`, "unload twice", "done"],
  ]);
  for (const { from } of audit) expect(from).toMatch(/127\.0\.0\.1/);
  expect(JSON.stringify(telemetry.logs)).not.toMatch(new RegExp([shop.text, admin.text, TOKEN].join("|")));
});

test("the console's page comes without a key, and all that it shows with an administrator's alone", async () => {
  expect([200, 503]).toContain((await ask("/")).status); // 503: the page was not built
  for (const path of ["/console/feed", "/console/traces"]) {
    expect((await ask(path)).status).toBe(401);
    expect((await ask(path, bearer(shop.text))).status).toBe(403);
  }
  const stop = new AbortController();
  const feed = await fetch(`${scene.addresses.http}/console/feed`, {
    headers: bearer(admin.text),
    signal: stop.signal,
  });
  expect(feed.status).toBe(200);
  stop.abort();
  expect((await ask("/console/replay", bearer(shop.text), {})).status).toBe(403);
  expect((await ask("/console/restart", bearer(shop.text), { actor: "abc" })).status).toBe(403);
  expect((await ask("/console/restart", bearer(admin.text), { actor: "abc" })).body["error"]).toContain("operator");
});

test("the admin token asks for nothing in any application's name", async () => {
  expect((await infer(bearer(TOKEN))).status).toBe(403);
  expect((await infer({ ...bearer(TOKEN), "tutti-app": "shop" })).status).toBe(403);
  expect((await ask("/v2/models/twice", bearer(TOKEN))).status).toBe(200);
});

test("a gateway whose keys can't be read does not start", async () => {
  await expect(GatewayScene.open({ access: { apiKeys: join(folder, "none.json") } })).rejects.toThrow(/none\.json/);
});
