/** The cluster that is struck: two ingresses, two batchers, three rankers, one executor that runs ONNX models and three that emulate them. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onnxGraph } from "@tutti/onnx-tools";
import type { Role } from "@tutti/protocol";
import { TuttiUp } from "../tutti-up.ts";

export const MODELS = ["echo-0", "echo-1", "echo-2", "echo-3"] as const;
/** Numbers in a request and in its answer. */
export const WIDTH = 16;

/** Emulated executors take these; the real one is faster, and so is never later than planned. */
const CONFIG = "{ slo: 400ms, max_batch_size: 8, latencies: { alpha: 1ms, beta: 4ms } }";

const COUNTS = ["--ingresses", "2", "--batchers", "2", "--rankers", "3", "--executors", "1"];

export interface StruckCluster {
  readonly up: TuttiUp;
  /** A file. */
  credentialsOf(role: Role): string;
  stop(): Promise<void>;
}

export async function startCluster(): Promise<StruckCluster> {
  const folder = await mkdtemp(join(tmpdir(), "tutti-chaos-"));
  for (const model of MODELS) {
    await mkdir(join(folder, model, "1"), { recursive: true });
    await writeFile(join(folder, model, "1/model.onnx"), echoModelBytes(WIDTH));
    await writeFile(join(folder, model, "config.yaml"), CONFIG);
  }
  const args = ["--no-demo", "--models", folder, ...COUNTS, "--emulated-executors", "3", "--patience", "0"];
  const up = await TuttiUp.start(args);
  return {
    up,
    credentialsOf: (role) => join(up.runDirectory, new URL(up.url).port, `creds/${role}.nk`),
    async stop() {
      await up.stop();
      await rm(folder, { recursive: true });
    },
  };
}

/**
 * y = x · I: computed by a matrix product, and exact, so that a real executor answers as one that echoes does.
 *
 * x f32[batch, width] → y f32[batch, width]
 */
function echoModelBytes(width: number): Uint8Array {
  const { DataType, floats, modelBytes, node, value } = onnxGraph;
  const identity = new Float32Array(width * width);
  for (let i = 0; i < width; i++) identity[i * width + i] = 1;
  return modelBytes({
    name: "echo",
    inputs: [value("x", DataType.FLOAT, ["batch", width])],
    outputs: [value("y", DataType.FLOAT, ["batch", width])],
    nodes: [node("MatMul", ["x", "identity"], ["y"])],
    initializers: [floats("identity", [width, width], identity)],
  });
}
