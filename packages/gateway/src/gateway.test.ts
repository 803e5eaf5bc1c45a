import type { Heartbeat, Role, ScalingAdvised } from "@tutti/protocol";
import { actorKey, gpuId, instant } from "@tutti/units";
import { expect, test } from "vitest";
import { missingParts } from "./health.ts";
import { ADVICE_METRIC, scalingAnswer } from "./scaling.ts";

const beat = (role: Role, more: Partial<Heartbeat> = {}): Heartbeat => ({
  key: actorKey(1),
  role,
  host: "here",
  pid: 1,
  sentAt: instant(0),
  startedAt: instant(0),
  leaving: false,
  ...more,
});
const accelerator = (serving: boolean) => ({
  gpu: gpuId(0),
  freeAt: instant(0),
  epoch: 1,
  grantSeq: 0,
  subCluster: "main",
  serving,
  type: "onnx-cpu",
});
const among = (peers: readonly Heartbeat[]) => (role: Role) => peers.filter((peer) => peer.role === role);

test("a cluster is ready when a request could be answered, and otherwise says what is missing", () => {
  const serving = beat("executor", { key: actorKey(2), gpus: [accelerator(true)] });
  const all = [beat("ingress"), beat("batcher"), beat("ranker", { epoch: 3 }), serving];
  const [anybody, nobody] = [() => true, () => false];
  expect(missingParts(true, among(all), nobody)).toEqual([]);
  expect(missingParts(true, among([]), anybody)).toHaveLength(4);
  const halting = [
    beat("ingress"),
    beat("batcher"),
    beat("ranker", { epoch: 0 }),
    beat("executor", { gpus: [accelerator(false)] }),
  ];
  expect(missingParts(true, among(halting), anybody)).toEqual(["no ranker leads", "no accelerator serves"]);
  expect(missingParts(false, among(all), anybody)).toEqual([]);
  for (const isNear of [nobody, (key: number) => key !== serving.key])
    expect(missingParts(false, among(all), isNear)).toEqual(["the NATS server can't be reached"]);
});

const advised: ScalingAdvised = { at: instant(1e6), advice: 2, gpus: 3, badRate: 0.2, idleShare: 0 };
const EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1";
const answer = (path: string, told: ScalingAdvised | undefined, now: number) => scalingAnswer(path, told, instant(now));

test("the advice says how many accelerators there ought to be, as KEDA and the External Metrics API read it", () => {
  expect(answer("/scaling", advised, 2e6)).toEqual({
    status: 200,
    body: { accelerators: 5, gpus: 3, advice: 2, badRate: 0.2, idleShare: 0, at: "1970-01-01T00:00:01.000Z" },
  });
  expect(answer(`${EXTERNAL}/namespaces/prod/${ADVICE_METRIC}`, advised, 2e6)).toEqual({
    status: 200,
    body: {
      kind: "ExternalMetricValueList",
      apiVersion: "external.metrics.k8s.io/v1beta1",
      metadata: {},
      items: [{ metricName: ADVICE_METRIC, metricLabels: {}, timestamp: "1970-01-01T00:00:01.000Z", value: "5" }],
    },
  });
  expect(answer(EXTERNAL, advised, 2e6)?.body).toMatchObject({
    kind: "APIResourceList",
    resources: [{ name: ADVICE_METRIC }],
  });
});

test("the last accelerator is never advised away, and nobody is told to scale by advice that is old or of another name", () => {
  expect(answer("/scaling", { ...advised, gpus: 1, advice: -1 }, 1e6)?.body).toMatchObject({ accelerators: 1 });
  expect(answer("/scaling", undefined, 0)).toMatchObject({ status: 503 });
  expect(answer("/scaling", advised, 7e6)).toMatchObject({ status: 503 });
  const metric = `${EXTERNAL}/namespaces/prod/${ADVICE_METRIC}`;
  expect(answer(metric, advised, 7e6)).toMatchObject({ status: 503, body: { kind: "Status", code: 503 } });
  expect(answer(`${EXTERNAL}/namespaces/prod/other`, advised, 1e6)).toMatchObject({ status: 404 });
});
