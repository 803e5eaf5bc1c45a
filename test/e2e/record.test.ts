/**
 * `tutti record` against a server with users: it hears the applications' requests, beside the ingresses that answer
 * them.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { usersOf } from "@tutti/bus-nats";
import { INFER_QUEUE, INFER_SUBJECT, inferSubject } from "@tutti/protocol";
import { afterAll, beforeAll, expect, test } from "vitest";
import { withNats } from "../fixtures/nats.ts";
import { ROOT, tutti } from "./tutti-up.ts";

const nats = withNats({ users: usersOf({ cluster: "main", apps: ["camera"] }) });
const INPUT = new TextEncoder().encode(`{"inputs":[]}`);
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-record-"));
});
afterAll(() => rm(folder, { recursive: true }));

/** Resolves when it records. */
async function startRecording(out: string, user: string, ...args: string[]): Promise<Recording> {
  const { url, credentials } = nats();
  const command = ["record", "--nats", url, "--creds", credentials[user]!, "--out", out, "--json", ...args];
  const child = spawn(process.execPath, [join(ROOT, "packages/cli/src/main.ts"), ...command], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const said = { out: "", err: "" };
  child.stdout.on("data", (chunk: Buffer) => (said.out += chunk.toString()));
  const closed = once(child, "close") as Promise<[number | null]>;
  const begun = new Promise<void>((resolve) =>
    child.stderr.on("data", (chunk: Buffer) => {
      said.err += chunk.toString();
      if (said.err.includes("recording to")) resolve();
    }),
  );
  await Promise.race([begun, closed]);
  return { child, said, ended: async () => (await closed)[0] };
}
interface Recording {
  readonly child: ChildProcess;
  readonly said: { readonly out: string; readonly err: string };
  readonly ended: () => Promise<number | null>;
}

test("requests are recorded beside the ingress that answers them, until Ctrl-C, and of the models asked for only", async () => {
  const [ingress, app] = [await nats().connect("ingress"), await nats().connect("app-camera")];
  const served: string[] = [];
  const three = new Promise<void>((resolve) =>
    ingress.bulk.subscribe(
      INFER_SUBJECT,
      ({ subject }) => {
        served.push(subject);
        if (served.length === 3) resolve();
      },
      { queue: INFER_QUEUE },
    ),
  );
  await new Promise((resolve) => ingress.bulk.flush(resolve));
  const out = join(folder, "trace.jsonl");
  const recording = await startRecording(out, "recorder", "--models", "mlp,det", "--payloads");
  const ask = (model: string, slo: string): boolean =>
    app.control.publish(inferSubject(model, "camera"), INPUT, {
      reply: app.control.newInbox(),
      headers: { "Content-Type": "application/json", "Tutti-Slo": slo },
    });
  expect([ask("mlp", "25ms"), ask("rec", "25ms"), ask("det", "1s")]).toEqual([true, true, true]);
  await three; // the server has sent each to both
  await new Promise((resolve) => app.control.flush(resolve));
  recording.child.kill("SIGINT");
  expect(await recording.ended(), recording.said.err).toBe(0);
  expect(JSON.parse(recording.said.out)).toMatchObject({ requests: 2, models: { mlp: 1, det: 1 }, missed: 0 });
  const [header, ...lines] = (await readFile(out, "utf8")).trim().split("\n");
  expect(JSON.parse(header!)).toMatchObject({ format: "tutti-trace", version: 1, models: ["mlp", "det"] });
  const payload = Buffer.from(INPUT).toString("base64");
  const common = { app: "camera", bytes: INPUT.length, contentType: "application/json", payload };
  expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
    { ...common, t: 0, model: "mlp", sloUs: 25_000 },
    { ...common, t: expect.any(Number) as number, model: "det", sloUs: 1_000_000 },
  ]);
  expect(served).toHaveLength(3);
});

test("an empty recording, credentials that may not listen, and a file that is there are failures that say so", async () => {
  const empty = await startRecording(join(folder, "empty.jsonl"), "recorder", "--seconds", "0.2");
  expect(await empty.ended(), empty.said.err).toBe(1);
  expect(JSON.parse(empty.said.out)).toMatchObject({ requests: 0 });
  const again = await startRecording(join(folder, "empty.jsonl"), "recorder", "--seconds", "0.2");
  expect(await again.ended()).toBe(1);
  expect(again.said.out).toContain("is there already");
  for (const user of ["admin", "app-camera"]) {
    const denied = await startRecording(join(folder, `${user}.jsonl`), user, "--seconds", "30");
    expect(await denied.ended(), denied.said.err).toBe(1);
    expect(denied.said.out).toContain(`take those of the user \\"recorder\\"`);
  }
});

test("wrong usage and a cluster that is not there have exit codes of their own", async () => {
  const out = join(folder, "never.jsonl");
  expect((await tutti(["record"])).code).toBe(2);
  expect((await tutti(["record", "--out", out, "--nats", nats().url, "--seconds", "x"])).code).toBe(2);
  expect((await tutti(["record", "--out", out, "--nats", nats().url, "--models", "a,,b"])).code).toBe(2);
  expect((await tutti(["record", "--out", out, "--nats", "nats://127.0.0.1:1"])).code).toBe(3);
});
