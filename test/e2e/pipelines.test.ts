/** A pipeline of two stages, with real processes, a real ONNX model and functions in TypeScript. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isBusFailure } from "@tutti/ports/bus";
import { type NatsConnection, connectNats } from "@tutti/bus-nats";
import { type Tutti, connect } from "@tutti/client";
import { generateAddOne } from "@tutti/onnx-tools";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ROOT, TuttiUp, tutti } from "./tutti-up.ts";

const PIPELINES = join(ROOT, "test/e2e/pipelines");
let folder: string;
let up: TuttiUp;
let client: Tutti;
let nats: NatsConnection;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-pipelines-"));
  for (const name of ["add", "pair"]) {
    await mkdir(join(folder, name === "add" ? "models" : "clash", name, "1"), { recursive: true });
    await writeFile(join(folder, name === "add" ? "models" : "clash", name, "1/model.onnx"), generateAddOne());
  }
  for (const path of ["models/add", "clash/pair"]) await writeFile(join(folder, path, "config.yaml"), "slo: 1s\n");
  const args = ["--no-demo", "--models", join(folder, "models"), "--pipelines", PIPELINES];
  up = await TuttiUp.start([...args, "--executors", "1", "--patience", "0"]);
  client = await connect({ servers: up.url, app: "e2e" });
  nats = await connectNats({ servers: up.url, name: "plain", inboxPrefix: "_INBOX" });
});
afterAll(async () => {
  await client?.close();
  await nats?.close();
  await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

const asked = async (...x: number[]): Promise<unknown> =>
  (await client.infer("pair", { x: Float32Array.from(x) }, { slo: "5s" })).outputs["sum"]?.data;

test("a pipeline is asked like a model, and fans out by what its functions say", async () => {
  expect(await asked(3, 1, 2, 0)).toEqual(Float32Array.of(15, 9, 12, 6));
  expect(await asked(0, 1, 2, 0)).toEqual(Float32Array.of(0, 0, 0, 0));
  const many = await Promise.all(Array.from({ length: 20 }, () => asked(1, 0, 0, 0)));
  for (const one of many) expect(one).toEqual(Float32Array.of(3, 2, 2, 2));
});

test("a plain NATS client gets JSON for JSON, with its id and the pipeline's name", async () => {
  const body = { id: "r-1", inputs: [{ name: "x", shape: [4], datatype: "FP32", data: [1, 1, 1, 1] }] };
  const answer = await new Promise<Record<string, unknown>>((resolve, reject) =>
    nats.control.request(
      "infer.pair.e2e",
      new TextEncoder().encode(JSON.stringify(body)),
      { timeoutMs: 20_000 },
      (result) =>
        isBusFailure(result)
          ? reject(new Error(result.failure))
          : resolve(JSON.parse(new TextDecoder().decode(result.payload)) as Record<string, unknown>),
    ),
  );
  expect(answer).toEqual({
    model_name: "pair",
    model_version: "1",
    id: "r-1",
    outputs: [{ name: "sum", datatype: "FP32", shape: [1, 4], data: [3, 3, 3, 3] }],
  });
});

test("a wrong input is the publisher's fault, and an error of a function says which one", async () => {
  await expect(asked(1, 2)).rejects.toMatchObject({
    code: "TUTTI_INVALID_INPUT",
    message: "stage once: x has 2 numbers, four are due",
  });
  await expect(asked(-1, 0, 0, 0)).rejects.toMatchObject({
    code: "TUTTI_INTERNAL",
    message: `stage again: ./pair.ts#toAgain of pipeline "pair" failed: fewer than none can't be made`,
  });
  expect(await asked(1, 0, 0, 0)).toEqual(Float32Array.of(3, 2, 2, 2));
});

test("tutti pipelines lists the stages with their time, by the profiles of the cluster", async () => {
  const { code, stdout } = await up.command("pipelines", PIPELINES, "--json", "--fan-out", "again=3");
  expect(code).toBe(0);
  const [pair] = JSON.parse(stdout) as { split: string; stages: { untilUs: number; aloneUs: number }[] }[];
  expect(pair).toMatchObject({
    ...{ name: "pair", sloUs: 5_000_000, split: "planned" },
    stages: [
      { name: "once", model: "add", requests: 1 },
      { name: "again", model: "add", requests: 3, untilUs: 5_000_000 },
    ],
  });
  expect(pair!.stages[0]!.untilUs).toBeLessThan(5_000_000);
  expect(pair!.stages[0]!.aloneUs).toBeGreaterThan(0);
  expect((await up.command("pipelines", PIPELINES)).stdout).toMatch(/pair +5 s +planned +once +add/);
});

test("a pipeline that is called like a model, or whose declaration is wrong, ends the start with what to do", async () => {
  const clash = await tutti(["up", "--no-demo", "--models", join(folder, "clash"), "--pipelines", PIPELINES]);
  expect([clash.code, clash.stderr]).toEqual([1, expect.stringContaining(`both called "pair"`)]);
  await writeFile(join(folder, "bad.yaml"), "name: bad\nslo: 1s\nstages: []\nfinish: ../x.ts#f\n");
  const bad = await tutti(["up", "--no-demo", "--pipelines", folder]);
  expect([bad.code, bad.stderr]).toEqual([
    1,
    expect.stringMatching(/bad\.yaml: stages is a list.*finish names a function/),
  ]);
});
