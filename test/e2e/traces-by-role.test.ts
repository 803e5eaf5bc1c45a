/**
 * Traces of the default layout, where most roles share a process, as `tutti up --jaeger` and the console show them.
 * They are kept by a stand-in for Jaeger, so that this runs anywhere; a real one is in traces-and-doctor.test.ts.
 */
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FeedTrace, TraceAnswer } from "@tutti/console";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { ROOT, TuttiUp } from "./tutti-up.ts";

/** Spans leave each process once a second. */
const WITHIN = { timeout: 20_000, interval: 200 };

let folder: string;
let up: TuttiUp;
let http: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-traces-by-role-"));
  const [profiles, store] = [join(folder, "profiles.yaml"), join(folder, "jaeger")];
  await writeFile(profiles, "models: [{ name: calm, sloMs: 10000, batchMax: 8, alphaMs: 0.5, betaMs: 3 }]\n");
  const program = join(ROOT, "test/fixtures/trace-store.ts");
  await writeFile(store, `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`);
  await chmod(store, 0o755);
  vi.stubEnv("TUTTI_JAEGER", store);
  up = await TuttiUp.start(["--jaeger", "--emulate", profiles, "--gpus", "1", "--policy", "eager"]);
  vi.unstubAllEnvs();
  http = String((await up.next("child-ready", ({ http: at }) => at !== undefined))["http"]);
}, 120_000);
afterAll(async () => {
  await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

const ask = (slo: string): Promise<Response> => {
  const inputs = [{ name: "x", shape: [1, 1], datatype: "FP32", data: [1] }];
  const headers = { "tutti-slo": slo };
  return fetch(`${http}/v2/models/calm/infer`, { method: "POST", body: JSON.stringify({ inputs }), headers });
};
const shown = async <Answer>(path: string): Promise<Answer> =>
  (await (await fetch(`${http}/console/traces${path}`)).json()) as Answer;

test("the console lists the requests of a node, and each span is by the role that wrote it", async () => {
  expect((await ask("5s")).status).toBe(200);
  expect((await ask("2ms")).status).toBe(422);
  const listed = async (outcome: string): Promise<FeedTrace> =>
    vi.waitFor(async () => {
      const list = await shown<FeedTrace[]>("");
      const one = list.find((trace) => trace.outcome === outcome && trace.name === "gateway calm");
      expect(one, JSON.stringify(list)).toBeDefined();
      return one!;
    }, WITHIN);
  await listed("TUTTI_DEADLINE_INFEASIBLE");
  const trace = await shown<TraceAnswer>(`/${(await listed("ok")).id}`);
  const writers = new Map(trace.spans.map(({ name, service }) => [name, service]));
  expect(writers.get("gateway calm")).toBe("tutti-gateway");
  for (const name of ["infer calm", "wait", "run", "answer"]) expect(writers.get(name), name).toBe("tutti-ingress");
  const run = trace.spans.find(({ name }) => name === "run")!;
  // Its executor is another process, whose spans leave at moments of their own.
  await vi.waitFor(async () => {
    const { spans } = await shown<Partial<TraceAnswer>>(`/${run.links[0]!}`);
    expect(spans?.[0]).toMatchObject({ name: "batch calm", service: "tutti-executor", links: [trace.id] });
  }, WITHIN);
});
