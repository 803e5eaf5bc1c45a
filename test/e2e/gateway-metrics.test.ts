/** /metrics of a cluster that serves. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { promtool, runPromtool } from "../fixtures/promtool.ts";
import { type GatewayCluster, startGatewayCluster } from "./gateway-cluster.ts";

let cluster: GatewayCluster;
beforeAll(async () => {
  cluster = await startGatewayCluster();
}, 300_000);
afterAll(() => cluster?.stop());

const metrics = async (): Promise<string> => (await fetch(`${cluster.metrics}/metrics`)).text();
const valueOf = (text: string, series: string): number => {
  const line = text.split("\n").find((one) => one.startsWith(`${series} `));
  return Number(line?.slice(series.length + 1) ?? Number.NaN);
};
const INPUT = { name: "x", shape: [1, 4], datatype: "FP32", data: [1, 2, 3, 4] };

test("what is asked over HTTP is counted by the gateway at once, and by the cluster within seconds", async () => {
  for (let i = 0; i < 5; i++) {
    const body = JSON.stringify({ inputs: [INPUT] });
    const response = await fetch(`${cluster.http}/v2/models/add-one/infer`, { method: "POST", body });
    expect(response.status).toBe(200);
  }
  const own = 'tutti_gateway_requests_total{model="add-one",app="default",slo_class="longer",outcome="ok"}';
  expect(valueOf(await metrics(), own)).toBe(5);
  const success = 'nv_inference_request_success{model="add-one",version="1"}';
  const busy = 'tutti_accelerator_busy_seconds_total{gpu="0"}';
  let text = await metrics();
  // Actors report once a second, each at its own time.
  while (!(valueOf(text, success) >= 5 && valueOf(text, busy) > 0)) {
    await cluster.up.next("status", undefined, cluster.up.events.length);
    text = await metrics();
  }
  expect(valueOf(text, 'tutti_good_total{model="add-one"}')).toBe(valueOf(text, success));
  expect(valueOf(text, 'tutti_accelerators{state="serving"}')).toBe(1);
  expect(valueOf(text, 'tutti_models{state="ready"}')).toBe(1);
  expect(valueOf(text, 'tutti_actors{role="ranker"}')).toBe(1);
  expect(valueOf(text, 'tutti_ranker_epoch{sub_cluster="main"}')).toBeGreaterThan(0);
});

test("promtool has nothing to say against it", async (context) => {
  const tool = await promtool();
  if ("missing" in tool) return context.skip(tool.missing);
  const problems = await runPromtool(tool.path, ["check", "metrics"], { input: await metrics() }).catch(
    (error: { stdout: string; stderr: string }) => error.stdout + error.stderr,
  );
  // Triton's names are given, and break the conventions that ours keep.
  expect(problems.split("\n").filter((line) => line !== "" && !line.startsWith("nv_"))).toEqual([]);
});
