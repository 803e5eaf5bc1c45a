/** Executors of one engine on machines that aren't alike: `--accelerator-type` tells them apart. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connectNats, readCredentials } from "@tutti/bus-nats";
import { connect } from "@tutti/client";
import { generateMlp } from "@tutti/onnx-tools";
import { BUCKET, type ModelStatus } from "@tutti/protocol";
import { fromJson } from "@tutti/wire";
import { afterAll, expect, test } from "vitest";
import { ROOT, TuttiUp } from "./tutti-up.ts";

const timeout = 120_000;
const ending: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const end of ending.reverse()) await end();
});

/** The statuses of one model, as the profiler publishes them. */
async function watchStatus(
  up: TuttiUp,
  model: string,
): Promise<(fits: (status: ModelStatus) => boolean) => Promise<void>> {
  const credentials = readCredentials(credentialsOf(up, "planner"));
  const connection = await connectNats({ servers: up.url, name: "status-tap", credentials });
  ending.push(() => connection.close());
  let newest: ModelStatus | undefined;
  let look = (): void => undefined;
  connection.store.watch(BUCKET.profiles, model, {
    onEntry: ({ value }) => {
      newest = fromJson(value) as ModelStatus;
      look();
    },
    onDelete: () => undefined,
    onReady: () => undefined,
    onFailure: () => undefined,
  });
  return (fits) =>
    new Promise((resolve) => {
      look = () => {
        if (newest !== undefined && fits(newest)) resolve();
      };
      look();
    });
}

const credentialsOf = (up: TuttiUp, role: string): string =>
  join(up.runDirectory, new URL(up.url).port, `creds/${role}.nk`);

function startExecutor(up: TuttiUp, ...flags: string[]): ChildProcess {
  const joins = ["--nats", up.url, "--creds", credentialsOf(up, "executor"), "--state", join(up.runDirectory, "far")];
  const main = join(ROOT, "packages/cli/src/main.ts");
  const child = spawn(process.execPath, [main, "run", "executor", ...joins, ...flags], { stdio: "ignore" });
  const exit = once(child, "exit");
  ending.push(() => {
    child.kill("SIGTERM");
    return exit;
  });
  return child;
}

interface Listed {
  readonly executorTypes: readonly string[];
  readonly byType?: ModelStatus["byType"];
}

test(
  "two executors of the CPU engine with other names have latencies of their own, which commands show",
  async () => {
    const folder = await mkdtemp(join(tmpdir(), "tutti-e2e-accelerators-"));
    ending.push(() => rm(folder, { recursive: true }));
    await mkdir(join(folder, "mlp", "1"), { recursive: true });
    await writeFile(join(folder, "mlp", "1", "model.onnx"), generateMlp({ seed: 1, widths: [4, 16, 2] }));
    await writeFile(join(folder, "mlp", "config.yaml"), "slo: 2s\nmax_batch_size: 4\n");
    const named = ["--executors", "1", "--accelerator-type", "quick"];
    const up = await TuttiUp.start(["--no-demo", "--models", folder, ...named]);
    ending.push(() => up.stop());
    const listed = async (): Promise<Listed> =>
      (JSON.parse((await up.command("models", "--json")).stdout) as Listed[])[0]!;
    expect((await listed()).executorTypes).toEqual(["onnx-cpu-quick"]);

    const status = await watchStatus(up, "mlp");
    startExecutor(up, "--gpus", "9", "--threads", "2", "--accelerator-type", "two-cores");
    await status(({ executorTypes }) => executorTypes.length === 2);
    const { executorTypes, byType = [] } = await listed();
    expect(executorTypes).toEqual(["onnx-cpu-quick", "onnx-cpu-two-cores"]);
    expect(byType.map(({ type }) => type).toSorted()).toEqual(executorTypes);
    for (const { profiles } of byType) {
      expect(profiles[0]!.map(({ batchSize }) => batchSize)).toEqual([1, 2, 4]);
      for (const { latency } of profiles[0]!) expect(latency).toBeGreaterThan(0);
    }
    const [models, top] = [await up.command("models"), await up.command("top", "--once", "--json")];
    expect(models.stdout).toContain("onnx-cpu-quick, onnx-cpu-two-cores");
    const { accelerators } = JSON.parse(top.stdout) as { accelerators: { gpu: number; type: string }[] };
    expect(accelerators.map(({ gpu, type }) => [gpu, type])).toEqual([
      [0, "onnx-cpu-quick"],
      [9, "onnx-cpu-two-cores"],
    ]);

    const client = await connect({ servers: up.url, app: "e2e" });
    ending.push(() => client.close());
    expect((await client.infer("mlp", { x: [[1, 2, 3, 4]] })).outputs["y"]?.data).toHaveLength(2);
  },
  timeout,
);
