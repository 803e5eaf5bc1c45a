/** A cluster with one small real model and its gateway, for tests of the gateway. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { generateAddOne } from "@tutti/onnx-tools";
import { TuttiUp } from "./tutti-up.ts";

export const TOKEN = "token-of-these-tests-0123456789abcdef";
export const WIDTH = 4;
/** A sound of four samples is an input too. */
const CONFIG = `slo: 10s
max_batch_size: 8
latencies: { alpha: 1ms, beta: 1ms }
preprocess: { audio: { sample_rate: 8000 } }
`;

export interface GatewayCluster {
  readonly up: TuttiUp;
  /** URL, `host:port` and URL. */
  readonly http: string;
  readonly grpc: string;
  readonly metrics: string;
  stop(): Promise<void>;
}

/** Serves `add-one` (y = x + 1, float32[batch, 4]) within 10 s; other suites test how fast it is. */
export async function startGatewayCluster(...args: string[]): Promise<GatewayCluster> {
  const folder = await mkdtemp(join(tmpdir(), "tutti-e2e-gateway-"));
  const model = join(folder, "models/add-one");
  await mkdir(join(model, "1"), { recursive: true });
  await writeFile(join(model, "1/model.onnx"), generateAddOne({ width: WIDTH }));
  await writeFile(join(model, "config.yaml"), CONFIG);
  await writeFile(join(folder, "token"), `${TOKEN}\n`);
  const models = ["--no-demo", "--models", join(folder, "models"), "--executors", "1", "--patience", "0"];
  const up = await TuttiUp.start([...models, "--admin-token", join(folder, "token"), ...args]);
  const ready = await up.next("child-ready", ({ http }) => http !== undefined);
  return {
    up,
    http: String(ready["http"]),
    grpc: String(ready["grpc"]),
    metrics: String(ready["metrics"]),
    async stop() {
      await up.stop();
      await rm(folder, { recursive: true });
    },
  };
}
