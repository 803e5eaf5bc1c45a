/** The demo models, asked in every way: from the command line, by the client, and by a plain NATS client. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type NatsConnection, connectNats } from "@tutti/bus-nats";
import { type Delivery, isBusFailure } from "@tutti/ports/bus";
import { type Tutti, connect, tensor } from "@tutti/client";
import { damaged, generateAddOne, generateLoop } from "@tutti/onnx-tools";
import { afterAll, beforeAll, expect, test } from "vitest";
import { guideCommands } from "../fixtures/doc-blocks.ts";
import { hasCurl, runLive } from "./live-commands.ts";
import { type CommandResult, FIXTURES, TuttiUp } from "./tutti-up.ts";

let up: TuttiUp;
let nats: NatsConnection;
let client: Tutti;
let folder: string;

beforeAll(async () => {
  // Deferral to the last moment is for other suites: these tests ask one by one, on a machine that may be busy.
  up = await TuttiUp.start(["--patience", "0.2"]);
  nats = await connectNats({ servers: up.url, name: "plain", inboxPrefix: "_INBOX" });
  client = await connect({ servers: up.url, app: "e2e" });
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-models-"));
});
afterAll(async () => {
  await client?.close();
  await nats?.close();
  await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

interface PlainAnswer {
  readonly body: Record<string, unknown>;
  readonly status: string | undefined;
  readonly contentType: string | undefined;
}

/** Sends a request as `nats req` does. */
function request(
  subject: string,
  payload: string | Uint8Array,
  headers: Record<string, string> = {},
): Promise<PlainAnswer> {
  const bytes = typeof payload === "string" ? new TextEncoder().encode(payload) : payload;
  return new Promise((resolve, reject) => {
    nats.control.request(subject, bytes, { timeoutMs: 20_000, headers }, (result) => {
      if (isBusFailure(result)) return reject(new Error(result.failure));
      resolve(read(result));
    });
  });
}

function read(delivery: Delivery): PlainAnswer {
  const contentType = delivery.header("Content-Type");
  const text = new TextDecoder().decode(delivery.payload);
  const body = text.startsWith("{") ? (JSON.parse(text) as Record<string, unknown>) : {};
  return { body, status: delivery.header("Nats-Service-Error-Code"), contentType };
}

/** A long SLO: these tests are not about deadlines. */
const PATIENT = { slo: "2s" };
const x256 = Array.from({ length: 256 }, (_, index) => Math.sin(index));
const json = (inputs: unknown, rest: object = {}): string => JSON.stringify({ inputs, ...rest });
const mlpBody = json([{ name: "x", shape: [1, 256], datatype: "FP32", data: x256 }], { id: "r-1" });

test("every demo model is served, with its SLO and its latencies in the table", async () => {
  const { models } = await up.next("ready");
  const listed = models as { name: string; state: string; profiles: { latency: number }[][]; buckets: unknown[] }[];
  expect(listed.map(({ name }) => name).sort()).toEqual([
    "cnn",
    "ctr",
    "mlp",
    "ocr-cls",
    "ocr-det",
    "ocr-rec",
    "silero-vad",
  ]);
  for (const { name, state, profiles, buckets } of listed) {
    expect([name, state, profiles.length]).toEqual([name, "ready", buckets.length]);
    for (const points of profiles) expect(points[0]?.latency).toBeGreaterThan(0);
  }
  const { code, stdout } = await up.command("models");
  expect(code).toBe(0);
  expect(stdout).toMatch(/^model .*SLO .*l\(1\)/);
  expect(stdout).toContain("ocr-rec@W=320");
});

test("a picture of a line of text is read", async () => {
  const word = await up.command(
    "infer",
    "ocr-rec",
    "--input",
    join(FIXTURES, "text-word.png"),
    "--slo",
    "2s",
    "--json",
  );
  expect(JSON.parse(word.stdout)).toMatchObject({ meaning: { text: "TUTTI 2026" } });
  const line = await up.command("infer", "ocr-rec", "--input", join(FIXTURES, "text-line.png"), "--slo", "2s");
  expect([line.code, line.stdout]).toEqual([0, expect.stringContaining('"The largest batch in time"')]);
});

test("speech is heard in speech and not in silence, its state carried from frame to frame", async () => {
  const probabilities = async (file: string): Promise<number[]> => {
    const { stdout } = await up.command("infer", "silero-vad", "--input", join(FIXTURES, file), "--json");
    return (JSON.parse(stdout) as { frames: { probability: number }[] }).frames.map((frame) => frame.probability);
  };
  const speech = await probabilities("speech.wav");
  expect(Math.max(...speech)).toBeGreaterThan(0.8);
  expect(Math.max(...(await probabilities("silence.wav")))).toBeLessThan(0.2);
});

test("JSON, msgpack and binary give the same outputs", async () => {
  const outputs = await Promise.all(
    (["json", "msgpack", "binary"] as const).map(async (form) => {
      const result = await client.infer("mlp", { x: Float32Array.from(x256) }, { ...PATIENT, form });
      return result.outputs["y"]?.data;
    }),
  );
  expect(outputs[0]).toHaveLength(128);
  expect(outputs[1]).toEqual(outputs[0]);
  expect(outputs[2]).toEqual(outputs[0]);
});

test("a plain NATS client gets JSON for JSON, with its id, the model and its version", async () => {
  const { body, status } = await request("infer.mlp.shop", mlpBody, { "Tutti-Slo": "2s" });
  expect(status).toBeUndefined();
  expect(body).toMatchObject({ id: "r-1", model_name: "mlp", model_version: "1" });
  const [output] = body["outputs"] as { name: string; shape: number[]; datatype: string; data: number[] }[];
  expect(output).toMatchObject({ name: "y", shape: [1, 128], datatype: "FP32" });
  const { outputs } = await client.infer("mlp", { x: Float32Array.from(x256) }, PATIENT);
  expect(Float32Array.from(output?.data ?? [])).toEqual(outputs["y"]?.data);
});

test("requests that are batched together each get their own outputs (T2)", async () => {
  const results = await Promise.all(
    Array.from({ length: 64 }, async (_, index) => {
      const x = Float32Array.from(x256, (value) => value + index);
      return { x, y: (await client.infer("mlp", { x }, PATIENT)).outputs["y"]?.data as Float32Array };
    }),
  );
  for (const { x, y } of [results[0]!, results[31]!, results[63]!]) {
    const alone = (await client.infer("mlp", { x }, PATIENT)).outputs["y"]?.data as Float32Array;
    for (const [index, value] of y.entries()) expect(Math.abs(value - alone[index]!)).toBeLessThan(1e-3);
  }
});

test("bad requests get their typed error at once, and good ones beside them are answered", async () => {
  const of = (data: unknown, rest: object = {}) =>
    json([{ name: "x", shape: [1, 256], datatype: "FP32", data, ...rest }]);
  const invalid: [string, string, string | Uint8Array, Record<string, string>][] = [
    ["TUTTI_NOT_FOUND", "infer.nothing.e2e", mlpBody, {}],
    ["TUTTI_INVALID_INPUT", "infer.mlp.e2e", of(x256, { name: "z" }), {}],
    ["TUTTI_INVALID_INPUT", "infer.mlp.e2e", of(x256, { shape: [1, 255] }), {}],
    ["TUTTI_INVALID_INPUT", "infer.mlp.e2e", of(x256, { datatype: "INT64" }), {}],
    ["TUTTI_INVALID_INPUT", "infer.mlp.e2e", of(x256.slice(1)), {}],
    ["TUTTI_INVALID_INPUT", "infer.mlp.e2e", json([]), {}],
    ["TUTTI_INVALID_INPUT", "infer.mlp.e2e", "{ not json", {}],
    ["TUTTI_INVALID_INPUT", "infer.mlp.e2e", Uint8Array.of(1, 2, 3), { "Content-Type": "application/msgpack" }],
    ["TUTTI_INVALID_INPUT", "infer.mlp.e2e", "", {}],
    ["TUTTI_INVALID_INPUT", "infer.mlp.e2e", mlpBody, { "Content-Type": "text/plain" }],
    ["TUTTI_INVALID_INPUT", "infer.mlp.e2e", mlpBody, { "Tutti-Slo": "0ms" }],
    ["TUTTI_INVALID_INPUT", "infer.mlp.e2e", mlpBody, { "Tutti-Slo": "525600m" }],
    ["TUTTI_DEADLINE_INFEASIBLE", "infer.mlp.e2e", mlpBody, { "Tutti-Slo": "1us" }],
    ["TUTTI_DEADLINE_INFEASIBLE", "infer.mlp.e2e", mlpBody, { "Tutti-Deadline": String(Date.now() - 1_000) }],
    ["TUTTI_TOO_LARGE", "infer.mlp.e2e", new Uint8Array(5_000_000), {}],
  ];
  const startedAt = performance.now();
  const good = Array.from({ length: 20 }, () => request("infer.mlp.e2e", mlpBody, { "Tutti-Slo": "5s" }));
  for (const [code, subject, payload, headers] of invalid) {
    const { body, status } = await request(subject, payload, headers);
    expect([headers, body["code"]]).toEqual([headers, code]);
    expect(body["error"]).toMatch(/\w+ \w+/);
    expect(Number(status)).toBeGreaterThanOrEqual(400);
  }
  expect(performance.now() - startedAt).toBeLessThan(10_000);
  for (const answer of good) expect((await answer).body).toHaveProperty("outputs");
});

test("what fits no bucket is refused with the buckets that there are", async () => {
  const wide = client.infer("ocr-rec", { x: tensor(new Float32Array(3 * 48 * 400), [1, 3, 48, 400]) });
  await expect(wide).rejects.toMatchObject({ code: "TUTTI_INVALID_INPUT", message: expect.stringContaining("320") });
});

test("one bad item does not fail its batch: an id outside the table is its own request's error", async () => {
  const ids = (id: bigint) => ({
    ids: tensor(
      BigInt64Array.from({ length: 16 }, () => id),
      [1, 16],
    ),
  });
  const outcomes = await Promise.allSettled(
    Array.from({ length: 8 }, (_, index) => client.infer("ctr", ids(index === 3 ? 999_999n : 7n), PATIENT)),
  );
  expect(outcomes.map(({ status }) => status)).toEqual(
    Array.from({ length: 8 }, (_, index) => (index === 3 ? "rejected" : "fulfilled")),
  );
});

test("a model is loaded, served, changed and unloaded while others are served", async () => {
  const path = join(folder, "add.onnx");
  await writeFile(path, generateAddOne());
  const loaded = await up.command("load", path, "--slo", "200ms", "--max-batch", "8", "--json");
  expect([loaded.code, loaded.stderr]).toEqual([0, ""]);
  expect(JSON.parse(loaded.stdout)).toMatchObject([{ name: "add", state: "ready", version: "1", batchSizeMax: 8 }]);
  const add = async (): Promise<unknown> =>
    (await client.infer("add", { x: Float32Array.of(1, 2, 3, 4) }, PATIENT)).outputs["y"]?.data;
  expect(await add()).toEqual(Float32Array.of(2, 3, 4, 5));

  const changed = await up.command("load", path, "--slo", "300ms", "--json");
  expect(JSON.parse(changed.stdout)).toMatchObject([{ state: "ready", version: "2", sloUs: 300_000 }]);
  expect(await add()).toEqual(Float32Array.of(2, 3, 4, 5));

  expect((await up.command("unload", "add")).code).toBe(0);
  await expect(add()).rejects.toMatchObject({ code: "TUTTI_NOT_FOUND" });
  const again = await up.command("unload", "add");
  expect([again.code, again.stderr]).toEqual([1, expect.stringContaining("no model")]);
});

test("an SLO that not even one request can meet is refused at load, with the reason", async () => {
  const path = join(folder, "impossible.onnx");
  await writeFile(path, generateAddOne());
  const { code, stdout } = await up.command("load", path, "--slo", "0.2ms");
  expect(code).toBe(1);
  expect(stdout).toMatch(/refused[^]*impossible: one request alone takes/);
  expect((await up.command("unload", "impossible")).code).toBe(0);
});

test("a model with a given profile is not measured", async () => {
  const path = join(folder, "given.onnx");
  await writeFile(path, generateAddOne());
  await writeFile(join(folder, "given.yaml"), "{ 1: 3ms, 4: 5ms }");
  const profile = join(folder, "given.yaml");
  const { stdout } = await up.command(
    "load",
    path,
    "--slo",
    "200ms",
    "--max-batch",
    "4",
    "--profile",
    profile,
    "--json",
  );
  const [model] = JSON.parse(stdout) as { state: string; profiles: { batchSize: number; latency: number }[][] }[];
  expect(model?.state).toBe("ready");
  expect(model?.profiles[0]?.find((point) => point.batchSize === 1)?.latency).toBe(3_000);
  expect((await up.command("unload", "given")).code).toBe(0);
});

test("a corrupt model file is refused before anything is stored, and disturbs nobody", async () => {
  for (const damage of ["truncated", "empty", "text"] as const) {
    const path = join(folder, `${damage}.onnx`);
    await writeFile(path, damaged(generateLoop(), damage));
    const { code, stderr } = await up.command("load", path, "--slo", "100ms");
    expect([damage, code, stderr]).toEqual([damage, 1, expect.stringMatching(/TUTTI_INVALID_INPUT/)]);
  }
  const unknown = join(folder, "unknown.onnx");
  await writeFile(unknown, damaged(generateLoop(), "unknown-operator"));
  const { code, stdout } = await up.command("load", unknown, "--slo", "100ms");
  expect([code, stdout]).toEqual([1, expect.stringMatching(/failed[^]*NoSuchOperator/)]);
  expect((await up.command("unload", "unknown")).code).toBe(0);
  expect((await request("infer.mlp.e2e", mlpBody, { "Tutti-Slo": "2s" })).body).toHaveProperty("outputs");
});

test("every actor answers the NATS services protocol, and tutti actors lists them all", async () => {
  const { code, stdout } = await up.command("actors", "--json");
  expect(code).toBe(0);
  const roles = (JSON.parse(stdout) as { role: string }[]).map(({ role }) => role);
  const expected = ["batcher", "executor", "gateway", "ingress", "jobs", "planner", "profiler", "ranker"];
  expect(roles.filter((role, index) => role !== "executor" || roles.indexOf(role) === index).sort()).toEqual(expected);
  for (const role of new Set(expected)) {
    const { body } = await request(`$SRV.INFO.${role}`, "");
    expect(body).toMatchObject({ type: "io.nats.micro.v1.info_response", name: role });
  }
});

test("the status line counts what was asked", async () => {
  const after = up.events.length;
  await Promise.all(Array.from({ length: 10 }, () => client.infer("mlp", { x: Float32Array.from(x256) }, PATIENT)));
  const counted = await up.next("status", (event) => Number(event["inTime"]) > 0, after);
  expect(counted).toMatchObject({ requests: expect.any(Number), batches: expect.any(Number) });
  expect((counted["gpus"] as unknown[]).length).toBeGreaterThan(0);
});

test("every command that the README and the guides run against a cluster does so, and ends well", async (context) => {
  const commands = guideCommands("live");
  const isRunnable = ({ text }: { text: string }): boolean => !text.startsWith("curl ") || hasCurl();
  if (!commands.every(isRunnable)) await context.annotate("there is no curl here: commands with it are left out");
  expect(commands.length).toBeGreaterThan(15);
  const left = commands.filter(isRunnable);
  // Four at a time: a command mostly waits for reports of actors, and for its own start.
  const worker = async (): Promise<void> => {
    for (let command = left.shift(); command !== undefined; command = left.shift()) {
      const { code, output } = await runLive(command, up);
      // A load that a busy machine could not offer in time ends with 1 and this text.
      const isBehind = command.text.includes("tutti bench") && output.includes("client was the bottleneck");
      expect(
        [0, isBehind ? 1 : 0],
        `${command.block.file}:${command.block.line}: ${command.text}: ${output}`,
      ).toContain(code);
    }
  };
  await Promise.all(Array.from({ length: 4 }, worker));
}, 400_000);

interface Benched {
  readonly trials: readonly {
    readonly offered: number;
    readonly good: number;
    readonly late: number;
    readonly refused: Readonly<Record<string, number>>;
    readonly lost: number;
    readonly repeated: number;
  }[];
  readonly streams: readonly { readonly name: string }[];
  readonly wasBottleneck: boolean;
  readonly interrupted: boolean;
}

test("tutti bench offers a mix over NATS and a trace of it over HTTP, and every request has one end", async () => {
  const check = ({ code, stdout, stderr }: CommandResult): Benched => {
    const report = JSON.parse(stdout || "{}") as Benched;
    expect(code, stderr).toBe(report.wasBottleneck ? 1 : 0);
    for (const { offered, good, late, lost, repeated, refused } of report.trials) {
      expect(offered).toBeGreaterThan(10);
      // Other suites check how many of them a busy machine answers in time.
      expect([lost, repeated]).toEqual([0, 0]);
      expect(good).toBeGreaterThan(0);
      expect(good + late + Object.values(refused).reduce((a, b) => a + b, 0)).toBe(offered);
    }
    expect(report.interrupted).toBe(false);
    return report;
  };
  const common = ["--slo", "5s", "--json", "--warmup", "0"];
  const page = join(folder, "bench.html");
  const mix = [
    "--mix",
    "mlp.web:3,ctr.batch",
    "--rates",
    "40,80",
    "--seconds",
    "0.5",
    "--arrivals",
    "gamma:0.5",
    "--html",
    page,
  ];
  const swept = check(await up.command("bench", ...mix, ...common));
  expect(swept.streams.map(({ name }) => name)).toEqual(["mlp.web", "ctr.batch"]);
  expect(swept.trials).toHaveLength(2);
  expect(await readFile(page, "utf8")).toContain("<h2>Streams</h2>");
  const trace = join(folder, "trace.csv");
  const lines = Array.from({ length: 30 }, (_, i) => `${i * 10},${i % 3 === 0 ? "ctr" : "mlp"},shop`);
  await writeFile(trace, ["t_ms,model,app", ...lines].join("\n"));
  const { http } = up.events.find((event) => event.event === "child-ready" && event["http"] !== undefined)!;
  const replayed = check(await up.command("bench", "--arrivals", `trace:${trace}`, "--http", String(http), ...common));
  expect(replayed.trials.map(({ offered }) => offered)).toEqual([30]);
});

test("tutti bench says what is missing, and what a wrong word should have been", async () => {
  const said = async (code: number, text: string, ...args: string[]): Promise<void> => {
    const result = await up.command("bench", ...args);
    expect([result.code, result.stderr]).toEqual([code, expect.stringContaining(text)]);
  };
  await Promise.all([
    said(2, "name a model"),
    said(2, "poisson, uniform, gamma", "mlp", "--arrivals", "bursty"),
    said(1, 'no model named "mpl" is loaded: did you mean "mlp"?', "mpl"),
    said(3, "can't be reached", "mlp", "--http", "http://127.0.0.1:9"),
  ]);
});
