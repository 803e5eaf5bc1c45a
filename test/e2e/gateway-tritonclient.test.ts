/** Users of Triton change only an address: Triton's own client, unmodified, over both transports. */
import { execFile } from "node:child_process";
import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { pythonWith, runPython } from "../fixtures/python.ts";
import { type GatewayCluster, TOKEN, startGatewayCluster } from "./gateway-cluster.ts";
import { loadRunningSum } from "./running-sum.ts";

/** NVIDIA's client of the protocol, and gRPC's own of health and reflection. */
const CLIENTS = ["tritonclient[http,grpc]==2.73.0", "grpcio-health-checking==1.81.1", "grpcio-reflection==1.81.1"];
const SCRIPT = join(import.meta.dirname, "../fixtures/triton-client.py");
const STANDARD = join(import.meta.dirname, "../fixtures/grpc-standard.py");
const EXTENSIONS = join(import.meta.dirname, "../fixtures/triton-extensions.py");
const PIPELINES = join(import.meta.dirname, "pipelines");
const ROWS = [
  [2, 3, 4, 5],
  [6, 7, 8, 9],
];

let client: Awaited<ReturnType<typeof pythonWith>>;
let pipelines: string | undefined;
let cluster: GatewayCluster | undefined;
beforeAll(async () => {
  client = await pythonWith("tritonclient-2.73.0", CLIENTS);
  if ("missing" in client) return;
  pipelines = await pairOfAddOne();
  cluster = await startGatewayCluster("--system-shared-memory", "--pipelines", pipelines);
  await loadRunningSum(cluster.http);
}, 600_000);
beforeEach((context) => {
  if ("missing" in client) context.skip(client.missing);
});
afterAll(async () => {
  await cluster?.stop();
  if (pipelines !== undefined) await rm(pipelines, { recursive: true });
});

/** The pipeline `pair` of the model that this cluster has. */
async function pairOfAddOne(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "tutti-e2e-gateway-pipelines-"));
  await copyFile(join(PIPELINES, "pair.ts"), join(folder, "pair.ts"));
  const declaration = await readFile(join(PIPELINES, "pair.yaml"), "utf8");
  await writeFile(join(folder, "pair.yaml"), declaration.replaceAll("model: add", "model: add-one"));
  return folder;
}

interface Failure {
  readonly status: string;
  readonly text: string;
}
interface Said {
  readonly [name: string]: unknown;
  readonly failures: Readonly<Record<string, Failure | null>>;
}

type Transport = "http" | "grpc";
function addressOf(transport: Transport): string {
  const { http, grpc } = cluster!;
  return transport === "http" ? new URL(http).host : grpc;
}
function run(script: string, transport: Transport, ...args: string[]): Promise<unknown> {
  return runPython((client as { python: string }).python, [script, transport, addressOf(transport), ...args]);
}
const ask = (transport: Transport): Promise<Said> => run(SCRIPT, transport, TOKEN) as Promise<Said>;

/** Counts are numbers over HTTP, and texts over gRPC. */
interface Statistics {
  readonly model_stats: readonly {
    readonly name: string;
    readonly inference_count: number | string;
    readonly last_inference: number | string;
    readonly inference_stats: { readonly success: { readonly count: number | string } };
  }[];
}
const startedAt = Date.now();
/** Checks the answers that both transports give alike. */
function checkCommon(said: Said): void {
  expect([said["live"], said["ready"], said["model_ready"]]).toEqual([true, true, [true, false]]);
  expect(said["server"]).toMatchObject({ name: "tutti" });
  expect(said["model"]).toMatchObject({ name: "add-one", platform: "onnxruntime_onnx", versions: ["1"] });
  expect(said["config"]).toMatchObject({ name: "add-one", max_batch_size: 8, backend: "onnxruntime" });
  expect([said["default"], said["id"], said["wanted"]]).toEqual([ROWS, "r-1", ROWS.slice(0, 1)]);
  expect(said["async"]).toEqual(Array.from({ length: 20 }, (_, i) => i + 1));
  expect(said["index"]).toContainEqual(expect.objectContaining({ name: "add-one", version: "1", state: "READY" }));
  expect(said["index"]).toContainEqual(expect.objectContaining({ name: "pair", state: "READY" }));
  expect(said["unloaded"]).toEqual([[["UNAVAILABLE", "unloaded"]], false]);
  expect([said["loaded_again"], said["answers_again"]]).toEqual([[["READY", ""]], null]);
  const [ofModel] = (said["statistics"] as Statistics).model_stats;
  expect(ofModel).toMatchObject({ name: "add-one", inference_count: ofModel!.inference_stats.success.count });
  expect(Number(ofModel!.inference_count)).toBeGreaterThan(0);
  expect(Number(ofModel!.last_inference)).toBeGreaterThan(startedAt);
  const { ready, metadata, config, sum, statistics } = said["pipeline"] as Readonly<Record<string, unknown>>;
  expect([ready, sum]).toEqual([[true, false], [[3, 2, 2, 2]]]);
  expect(metadata).toMatchObject({
    ...{ name: "pair", versions: ["1"], platform: "ensemble" },
    inputs: [{ name: "x", datatype: "FP32" }],
    outputs: [{ name: "sum", datatype: "FP32" }],
  });
  expect(config).toMatchObject({
    name: "pair",
    ensemble_scheduling: { step: [{ model_name: "add-one" }, { model_name: "add-one" }] },
  });
  const [counted] = (statistics as Statistics).model_stats;
  expect(counted).toMatchObject({ name: "pair" });
  expect(Number(counted!.inference_count)).toBeGreaterThan(0);
  expect(Number(counted!.last_inference)).toBeGreaterThan(startedAt);
}

test(
  "tritonclient over HTTP: metadata, JSON and binary tensors, compression, errors, the repository",
  { timeout: 240_000 },
  async () => {
    const said = await ask("http");
    checkCommon(said);
    expect(said["model"]).toMatchObject({ inputs: [{ name: "x", datatype: "FP32", shape: [-1, 4] }] });
    expect([said["json"], said["mixed"], said["compressed"]]).toEqual([ROWS, ROWS, ROWS]);
    const { nobody, shape, too_soon: tooSoon, timeout, closed } = said.failures;
    expect([nobody?.status, shape?.status, tooSoon?.status, timeout?.status, closed?.status]).toEqual([
      "404",
      "400",
      "422",
      "422",
      "401",
    ]);
    expect(shape?.text).toContain('input "x": expected FP32[1, 4], got FP32[1, 2]');
    expect(tooSoon?.text).toContain("would be feasible");
  },
);

test(
  "tritonclient over gRPC: metadata, raw tensors, streams, errors, the repository",
  { timeout: 240_000 },
  async () => {
    const said = await ask("grpc");
    checkCommon(said);
    expect(said["model"]).toMatchObject({ inputs: [{ name: "x", datatype: "FP32", shape: ["-1", "4"] }] });
    const { nobody, shape, too_soon: tooSoon, timeout, closed } = said.failures;
    expect([nobody?.status, shape?.status, tooSoon?.status, timeout?.status, closed?.status]).toEqual([
      "StatusCode.NOT_FOUND",
      "StatusCode.INVALID_ARGUMENT",
      "StatusCode.FAILED_PRECONDITION",
      "StatusCode.FAILED_PRECONDITION",
      "StatusCode.UNAUTHENTICATED",
    ]);
    expect(shape?.text).toContain('input "x": expected FP32[1, 4], got FP32[1, 2]');
  },
);

const PLUS_ONE = [
  [2, 5, 4, 3],
  [9, 8, 7, 6],
];
/** Expected sums: 1, 2, 3 and i are added each time. */
const SUMS = [
  [1, 2, 3, 0],
  [2, 4, 6, 1],
  [3, 6, 9, 3],
];

test.each(["http", "grpc"] as const)(
  "tritonclient over %s: classification, BF16, priority, files, sequences and shared memory",
  { timeout: 240_000 },
  async (transport) => {
    const said = (await run(EXTENSIONS, transport)) as Record<string, unknown>;
    expect(said["top"]).toEqual([
      ["5:1", "4:2"],
      ["9:0", "8:1"],
    ]);
    expect([said["halves"], said["urgent"]]).toEqual([PLUS_ONE, PLUS_ONE]);
    expect(said["sound"]).toEqual([[1, 1.5, 0.5, 1.25]]);
    expect(said["strings"]).toContain("one element, a whole file");
    expect(said["sums"]).toEqual([SUMS, SUMS]);
    expect(said["ended"]).toContain("begin it with sequence_start");
    expect(said["stateless"]).toContain("declares no state");
    expect(said["region"]).toMatch(/^\/tutti-e2e-/);
    expect([said["shared"], said["mixed"]]).toEqual([PLUS_ONE, PLUS_ONE]);
    expect(said["given_up"]).toContain('no shared memory region "io"');
    expect(said["nowhere"]).toContain("there is no shared memory");
  },
);

test("gRPC's own clients find the gateway's health, its services and their messages", { timeout: 60_000 }, async () => {
  const said = await runPython((client as { python: string }).python, [STANDARD, addressOf("grpc")]);
  expect(said).toEqual({
    health: ["SERVING", "SERVING", "SERVING", "NOT_FOUND"],
    services: ["grpc.health.v1.Health", "inference.GRPCInferenceService"],
    metadata: expect.objectContaining({ name: "add-one", versions: ["1"], platform: "onnxruntime_onnx" }) as unknown,
  });
});

const grpcurl = async (...args: string[]): Promise<string> => (await promisify(execFile)("grpcurl", args)).stdout;

test("grpcurl lists the services, and asks one by its description", { timeout: 60_000 }, async (context) => {
  const isThere = await grpcurl("-version").then(
    () => true,
    () => false,
  );
  if (!isThere) context.skip("no grpcurl on the PATH (go install github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3)");
  const address = addressOf("grpc");
  expect(await grpcurl("-plaintext", address, "list")).toContain("inference.GRPCInferenceService");
  const health = await grpcurl("-plaintext", address, "grpc.health.v1.Health/Check");
  expect(JSON.parse(health)).toEqual({ status: "SERVING" });
  const asked = JSON.stringify({ name: "add-one" });
  const metadata = await grpcurl("-plaintext", "-d", asked, address, "inference.GRPCInferenceService/ModelMetadata");
  expect(JSON.parse(metadata)).toMatchObject({ name: "add-one", versions: ["1"] });
});
