import type { Heartbeat, Role } from "@tutti/protocol";
import { actorKey, gpuId, instant } from "@tutti/units";
import { expect, test } from "vitest";
import { answer } from "./gateway.ts";
import { missingParts } from "./health.ts";

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
  serving,
  type: "onnx-cpu",
});
const among = (peers: readonly Heartbeat[]) => (role: Role) => peers.filter((peer) => peer.role === role);

test("a cluster is ready when a request could be answered, and otherwise says what is missing", () => {
  const serving = beat("executor", { gpus: [accelerator(true)] });
  const all = [beat("ingress"), beat("batcher"), beat("ranker", { epoch: 3 }), serving];
  expect(missingParts(among(all))).toEqual([]);
  expect(missingParts(among([]))).toHaveLength(4);
  const halting = [
    beat("ingress"),
    beat("batcher"),
    beat("ranker", { epoch: 0 }),
    beat("executor", { gpus: [accelerator(false)] }),
  ];
  expect(missingParts(among(halting))).toEqual(["no ranker leads", "no accelerator serves"]);
});

test("the process is live while it answers, and ready only with the cluster", () => {
  expect(answer("GET", "/v2/health/live", () => ["x"])).toMatchObject({ status: 200 });
  expect(answer("GET", "/v2/health/ready?x=1", () => [])).toMatchObject({ status: 200, body: { ready: true } });
  expect(answer("HEAD", "/v2/health/ready", () => ["x"])).toEqual({
    status: 503,
    body: { ready: false, missing: ["x"] },
  });
  expect(answer("GET", "/", () => [])).toMatchObject({ status: 404 });
  expect(answer("POST", "/v2/health/live", () => [])).toMatchObject({ status: 405 });
});
