import { afterEach, expect, test } from "vitest";
import { GatewayScene, twice } from "./testing/gateway-scene.ts";

let scene: GatewayScene;
afterEach(() => scene.close());

/** The reasons why the cluster is not ready. */
async function missing(): Promise<readonly string[]> {
  const response = await fetch(`${scene.addresses.http}/v2/health/ready`);
  const body = (await response.json()) as { ready: boolean; missing: string[] };
  expect([response.status, body.ready]).toEqual(body.missing.length === 0 ? [200, true] : [503, false]);
  return body.missing;
}
async function missingBecomes(expected: readonly string[]): Promise<void> {
  let now = await missing();
  while (now.join() !== expected.join()) now = await missing();
}

test("the cluster is ready when every model that will be asked for is served or has failed, and stays so when one comes later", async () => {
  scene = await GatewayScene.open({ awaitModels: ["twice", "broken", "other"] });
  scene.populate();
  await missingBecomes(['"broken" is not loaded yet', '"other" is not loaded yet']);
  await scene.serve({ ...twice, name: "broken" }, "quarantined");
  await missingBecomes(['"other" is not loaded yet']);
  await scene.registry.publish({ ...twice, name: "other" });
  await missingBecomes(['"other" is being prepared (waiting for an executor)']);
  await scene.serve({ ...twice, name: "other" });
  await missingBecomes([]);
  await scene.registry.publish({ ...twice, name: "later" });
  await scene.until(() => true);
  expect(await missing()).toEqual([]);
  expect((await fetch(`${scene.addresses.http}/v2/models/later/ready`)).status).toBe(503);
});
