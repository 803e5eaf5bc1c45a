/** `tutti split` on running systems: accelerators in fractions, resized and whole again while requests come. */
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { spawnSync } from "node:child_process";
import { connect } from "@tutti/client";
import { generateMlp } from "@tutti/onnx-tools";
import { afterAll, expect, test } from "vitest";
import { TuttiUp } from "./tutti-up.ts";

const timeout = 300_000;
let folder: string | undefined;
let up: TuttiUp | undefined;
afterAll(async () => {
  await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

/** Sends a request every 20 ms, of a row that names it, until it is stopped. */
async function loading(url: string, model: string, rowOf: (own: number) => number[]) {
  const client = await connect({ servers: url, app: "e2e" });
  const outcomes: Promise<string>[] = [];
  const timer = setInterval(() => {
    const answered = client.infer(model, { x: [rowOf(outcomes.length)] });
    outcomes.push(answered.then(() => "ok").catch((error: { code?: string }) => error.code ?? String(error)));
  }, 20);
  return async (): Promise<Record<string, number>> => {
    clearInterval(timer);
    const counts: Record<string, number> = {};
    for (const outcome of await Promise.all(outcomes)) counts[outcome] = (counts[outcome] ?? 0) + 1;
    await client.close();
    return counts;
  };
}

const split = async (cluster: TuttiUp, name: string, size: string): Promise<void> => {
  const { code, stdout, stderr } = await cluster.command("split", name, size);
  expect({ size, code, stderr }, stdout).toEqual({ size, code: 0, stderr: "" });
};

/** A plan by the rates that the cluster measures; the input has another rate. */
async function liveFractions(cluster: TuttiUp, path: string): Promise<{ models: [{ rate: number }] }> {
  await writeFile(path, "models: [{ name: mlp, rate: 0, sloMs: 1, alphaMs: 1, betaMs: 4 }]\n");
  const { code, stdout, stderr } = await cluster.command("plan", "fractions", path, "--live", "--json");
  expect({ code, stderr }, stdout).toEqual({ code: 0, stderr: "" });
  return JSON.parse(stdout) as { models: [{ rate: number }] };
}

test(
  "a CPU's cores are split between processes of onnxruntime, and an emulated accelerator is split, under load: nothing is refused or lost",
  async (context) => {
    if (availableParallelism() < 2) return context.skip("one core can't be split");
    if (spawnSync("taskset", ["-V"]).status !== 0) return context.skip("there is no taskset");
    folder = await mkdtemp(join(tmpdir(), "tutti-e2e-parts-"));
    await mkdir(join(folder, "mlp", "1"), { recursive: true });
    await writeFile(join(folder, "mlp", "1", "model.onnx"), generateMlp({ seed: 1, widths: [4, 16, 2] }));
    const config = "slo: 8s\nmax_batch_size: 4\nlatencies: { alpha: 1ms, beta: 4ms }\n";
    await writeFile(join(folder, "mlp", "config.yaml"), config);
    const real = ["--executors", "1", "--cores", "2"];
    up = await TuttiUp.start(["--no-demo", "--models", folder, ...real, "--emulated-executors", "1"]);
    const stop = await loading(up.url, "mlp", (own) => [own, 1, 2, 3]);
    const coresOf = async (name: string): Promise<string | undefined> =>
      /Cpus_allowed_list:\s*(\S+)/.exec(await readFile(`/proc/${up!.pidOf(name)}/status`, "utf8"))?.[1];
    expect(await coresOf("executor-0")).toBe("0-1");
    await split(up, "executor-0", "50");
    expect([await coresOf("executor-0-a50"), await coresOf("executor-0-b50")]).toEqual(["0", "1"]);
    await split(up, "executor-1", "60");
    expect(await coresOf("executor-1-b40")).toBe("0-1"); // emulated: it has no cores of its own
    await split(up, "executor-0", "100");
    expect(await coresOf("executor-0")).toBe("0-1");
    expect(() => up?.pidOf("executor-0-a50")).toThrow("does not run");
    const plan = await liveFractions(up, join(folder, "fractions.yaml"));
    expect(plan).toMatchObject({ feasible: true, live: { unplanned: [] }, models: [{ model: "mlp" }] });
    expect(plan.models[0].rate).toBeGreaterThan(5); // 50 a second were sent, as the planner has counted them
    const { ok, ...others } = await stop();
    expect(others).toEqual({});
    expect(ok).toBeGreaterThan(10);
  },
  timeout,
);
