/** Versions of a model over the Open Inference Protocol, and their metrics. */
import { RouteRegistry } from "@tutti/client/registries";
import { HEADER, threadOf } from "@tutti/protocol";
import { afterEach, beforeEach, expect, test } from "vitest";
import { GatewayScene, TOKEN, twice } from "./testing/gateway-scene.ts";

let scene: GatewayScene;
let routes: RouteRegistry;
beforeEach(async () => {
  scene = await GatewayScene.open();
  routes = new RouteRegistry(scene.store);
  await scene.serve({ ...twice, name: "twice/2", version: "2" });
});
afterEach(() => scene.close());

interface Answer {
  readonly status: number;
  readonly body: Record<string, unknown>;
}
async function ask(path: string, init: RequestInit = {}): Promise<Answer> {
  const response = await fetch(scene.addresses.http + path, init);
  return { status: response.status, body: (await response.json()) as Answer["body"] };
}
const infer = (path: string, more: object = {}, rows = 1): Promise<Answer> => {
  const x = { name: "x", datatype: "FP32", shape: [rows, 4], data: new Array<number>(4 * rows).fill(1) };
  return ask(`/v2/models/${path}/infer`, { method: "POST", body: JSON.stringify({ inputs: [x], ...more }) });
};
const sent = () => scene.seen.map(({ subject, header }) => [subject, header(HEADER.version), header(HEADER.messageId)]);

test("metadata lists the versions, each can be asked for by its path, and one that isn't there is not found", async () => {
  expect((await ask("/v2/models/twice")).body).toMatchObject({ name: "twice", versions: ["1", "2"] });
  expect((await ask("/v2/models/twice/versions/2")).body).toMatchObject({ name: "twice", versions: ["1", "2"] });
  expect(await ask("/v2/models/twice/versions/3")).toMatchObject({ status: 404 });
  expect(await ask("/v2/models/twice/versions/3/ready")).toMatchObject({ status: 404 });
  expect(await ask("/v2/models/twic/versions/1")).toMatchObject({
    ...{ status: 404, body: { error: expect.stringContaining('did you mean "twice"?') as string } },
  });
  scene.answeredBy = "2";
  expect((await infer("twice/versions/2")).body).toMatchObject({ model_name: "twice", model_version: "2" });
  expect(await infer("twice/versions/3")).toMatchObject({ status: 404 });
  expect(sent()).toEqual([["infer.twice.default", "2", undefined]]);
  const headers = { authorization: `Bearer ${TOKEN}` };
  const index = await ask("/v2/repository/index", { method: "POST", body: "{}", headers });
  expect(index.body).toMatchObject([
    { name: "twice", version: "1", state: "READY" },
    { name: "twice", version: "2", state: "READY" },
  ]);
});

test("without a version the cluster decides, and the answer says which it was", async () => {
  await routes.setShare("twice", { version: "2", percent: 50 });
  scene.answeredBy = "2";
  expect((await infer("twice")).body).toMatchObject({ model_name: "twice", model_version: "2" });
  scene.answeredBy = "1";
  expect((await infer("twice")).body).toMatchObject({ model_name: "twice", model_version: "1" });
  expect(sent().map(([subject, version]) => [subject, version])).toEqual([
    ["infer.twice.default", undefined],
    ["infer.twice.default", undefined],
  ]);
});

test("a client's id is what its version goes by, rows of one request have one, and none becomes another header", async () => {
  await infer("twice", { id: "order-7" });
  await infer("twice", {}, 3);
  await infer("twice", { id: "a b\r\nTutti-Priority: 255" });
  const ids = sent().map(([, , id]) => id);
  expect(ids[0]).toBe("order-7");
  expect(ids[1]).toMatch(/^[0-9a-f-]{36}$/);
  expect(new Set(ids.slice(1, 4)).size).toBe(1);
  expect(ids[4]).toBe("a%20b%0D%0ATutti-Priority%3A%20255");
});

test("a model is described by its default, also when its first version is gone; unloading it ends all versions", async () => {
  await routes.setDefault("twice", "2");
  await routes.unload("twice/1");
  expect((await ask("/v2/models/twice")).body).toMatchObject({ name: "twice", versions: ["2"] });
  const headers = { authorization: `Bearer ${TOKEN}` };
  const unloaded = await fetch(`${scene.addresses.http}/v2/repository/models/twice/unload`, {
    method: "POST",
    headers,
  });
  expect(unloaded.status).toBe(200);
  expect(await routes.list()).toEqual([]);
  expect(await scene.registry.list()).toEqual([]);
});

test("metrics tell each version's share, what shadows found, and a version's own figures", async () => {
  const second = (await scene.registry.get("twice/2"))!;
  await routes.setShare("twice", { version: "2", percent: 25 });
  const figures = { shadowCompared: 40, shadowDiffer: 3, shadowDifferenceMost: 0.5, shadowRan: 40 };
  scene.join("executor", {}, () => ({ perThread: [{ thread: threadOf(second, 0), name: "twice/2", figures }] }));
  scene.join("ingress", {}, () => ({
    perThread: [{ thread: threadOf(second, 0), name: "twice/2", figures: { offered: 5, ok: 4, p99Us: 7_000 } }],
  }));
  let text = "";
  while (!text.includes("tutti_shadow_compared{"))
    text = await (await fetch(`${scene.addresses.metrics}/metrics`)).text();
  for (const line of [
    'tutti_version_share_ratio{model="twice",version="1"} 0.75',
    'tutti_version_share_ratio{model="twice",version="2"} 0.25',
    'tutti_shadow_compared{model="twice",version="2"} 40',
    'tutti_shadow_mismatched{model="twice",version="2"} 3',
    'tutti_shadow_difference{model="twice",version="2"} 0.5',
  ])
    expect(text).toContain(line);
  expect(text).toMatch(/nv_inference_request_success\{model="twice",version="2"\}/);
});
