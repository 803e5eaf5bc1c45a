/**
 * `tutti up --divide` on unlike accelerators: those of one type become halves under load, and the others stay whole.
 */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { spawnSync } from "node:child_process";
import { type Tutti, connect } from "@tutti/client";
import { generateMlp } from "@tutti/onnx-tools";
import { afterAll, expect, test } from "vitest";
import { SteadyLoad } from "./steady-load.ts";
import { TuttiUp } from "./tutti-up.ts";

const timeout = 300_000;
let folder: string | undefined;
let up: TuttiUp | undefined;
let client: Tutti | undefined;
afterAll(async () => {
  await client?.close();
  await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

/** Runs cost the same on a half of an emulated accelerator, and twice as much on half of the CPU's cores. */
const CONFIG = "slo: 2s\nmax_batch_size: 4\nlatencies: { alpha: 1ms, beta: 40ms }\n";
const MEASURED =
  "models: [{ name: mlp, rate: 0, sloMs: 2000, latencyMs: { 50: { 1: 80, 4: 88 }, 100: { 1: 40, 4: 44 } } }]\n";

test(
  "of a CPU and two emulated accelerators only these become halves, and no request is refused or lost",
  async (context) => {
    if (availableParallelism() < 2) return context.skip("one core can't be split");
    if (spawnSync("taskset", ["-V"]).status !== 0) return context.skip("there is no taskset");
    folder = await mkdtemp(join(tmpdir(), "tutti-e2e-types-"));
    await mkdir(join(folder, "models", "mlp", "1"), { recursive: true });
    await writeFile(join(folder, "models", "mlp", "1", "model.onnx"), generateMlp({ seed: 1, widths: [4, 16, 2] }));
    await writeFile(join(folder, "models", "mlp", "config.yaml"), CONFIG);
    await writeFile(join(folder, "measured.yaml"), MEASURED);
    const executors = ["--executors", "1", "--cores", "2", "--emulated-executors", "2"];
    const divide = ["--divide", join(folder, "measured.yaml")];
    up = await TuttiUp.start(["--no-demo", "--models", join(folder, "models"), ...executors, ...divide]);
    client = await connect({ servers: up.url, app: "e2e" });
    const load = new SteadyLoad(client, { model: "mlp", perSecond: 40, sloMs: 2_000, row: [1, 2, 3, 4] });
    load.start();
    const dividing = await up.next("dividing");
    expect(dividing).toMatchObject({ kind: "halves", types: ["emulated"] });
    expect(dividing["halvesRps"]).toBeGreaterThan(1.3 * Number(dividing["wholeRps"]));
    expect(await up.next("divided")).toMatchObject({ size: 50, failed: [] });
    for (const executor of ["executor-1", "executor-2"])
      for (const half of ["a50", "b50"]) expect(up.pidOf(`${executor}-${half}`)).toBeGreaterThan(0);
    expect(up.pidOf("executor-0")).toBeGreaterThan(0);
    await load.until("ok", performance.now(), 60_000, 40);
    const settled = await load.stop();
    expect(settled.filter(({ status }) => status !== "ok")).toEqual([]);
  },
  timeout,
);
