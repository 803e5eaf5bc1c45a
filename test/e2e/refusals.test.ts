/**
 * `tutti refusals` on a real overloaded system: an operator explains a request by the id that its publisher gave
 * (docs/observability.md, "One refused request").
 */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Tutti, type TuttiError, connect } from "@tutti/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TuttiUp } from "./tutti-up.ts";

/** One accelerator answers four requests of an SLO of 500 ms, so of thirty that come at once most are refused. */
const PROFILES = "models: [{ name: wide, sloMs: 500, batchMax: 2, alphaMs: 5, betaMs: 200 }]\n";
const BURST = 30;
const traceOf = (i: number): string => (i + 1).toString(16).padStart(32, "0");

interface Row {
  readonly id: string;
  readonly app: string;
  readonly cause: string;
  readonly by?: string;
  readonly traceId?: string;
  readonly sloUs?: number;
  readonly feasibleUs?: number;
  readonly queue?: { readonly waitedFor: string; readonly queued: number; readonly accelerators: number };
}
interface Listed {
  readonly requests: readonly Row[];
  readonly matching: number;
  readonly silent: readonly string[];
}

let folder: string;
let up: TuttiUp;
let client: Tutti;
/** The errors that the publisher got, by the request's id. */
const refused = new Map<string, TuttiError>();

const credsOf = (user: string): string => join(up.runDirectory, new URL(up.url).port, "creds", `${user}.nk`);
async function listed(...flags: string[]): Promise<Listed> {
  const { code, stdout, stderr } = await up.command("refusals", ...flags, "--json");
  expect([flags, code, stderr]).toEqual([flags, 0, ""]);
  return JSON.parse(stdout) as Listed;
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-refusals-"));
  const profiles = join(folder, "profiles.yaml");
  await writeFile(profiles, PROFILES);
  up = await TuttiUp.start(["--emulate", profiles, "--gpus", "1", "--apps", "shop,camera"]);
  client = await connect({ servers: up.url, app: "shop", credentials: credsOf("app-shop") });
  await client.infer("wide", { x: [[1]] });
  await Promise.all(
    Array.from({ length: BURST }, async (_, i) => {
      const id = `order-${i}`;
      const traceparent = `00-${traceOf(i)}-b7ad6b7169203331-00`;
      const ended = client.infer("wide", { x: [[i]] }, { id, traceparent, retries: 0 });
      await ended.catch((error: unknown) => refused.set(id, error as TuttiError));
    }),
  );
});
afterAll(async () => {
  await client?.close();
  expect(await up?.stop()).toBe(0);
  if (folder !== undefined) await rm(folder, { recursive: true });
});

test("every request that its publisher was refused is listed, with the cause that it was told", async () => {
  expect(refused.size).toBeGreaterThan(BURST / 2);
  const { requests, matching, silent } = await listed("wide", "--app", "shop", "--limit", "100");
  const causes = new Map(requests.filter(({ cause }) => cause !== "LATE").map(({ id, cause }) => [id, cause]));
  expect(Object.fromEntries(causes)).toEqual(Object.fromEntries([...refused].map(([id, error]) => [id, error.code])));
  expect([matching, silent]).toEqual([requests.length, []]);
  expect((await listed("--app", "camera")).requests).toEqual([]);
  expect((await listed("--cause", "not-found")).requests).toEqual([]);
});

test("a request that waited for an accelerator is explained, by its id and by its trace", async () => {
  const { requests } = await listed("wide", "--limit", "100");
  const one = requests.find(({ queue }) => queue?.waitedFor === "accelerator")!;
  expect(one.queue!.accelerators).toBe(1);
  const { code, stdout } = await up.command("refusals", "--request", one.id);
  expect(code).toBe(0);
  expect(stdout).toContain(`${one.id}: shop asked wide, ended `);
  expect(stdout).toMatch(/The batcher \w+ refused it \(\w+\) [\d.]+ m?s after it had come, with an SLO of 500 ms\./);
  expect(stdout).toContain("It waited for an accelerator: as far as its batcher knew, ");
  expect(stdout).toMatch(/\d+ other requests? of its queue w\w+ waiting, and \d+ batch\w* w\w+ under way\./);
  // l(1) is 205 ms; the rest is delays, which a busy machine makes long.
  const [, alone] = /would have needed (\d+) ms of its 500 ms/.exec(stdout) ?? [];
  expect(Number(alone)).toBeGreaterThanOrEqual(205);
  expect(stdout).toContain(`The publisher was told: "${refused.get(one.id)!.message.slice(0, 240)}"`);
  expect(one.traceId).toBe(traceOf(Number(one.id.slice("order-".length))));
  expect((await listed("--request", one.traceId!)).requests).toMatchObject([{ id: one.id }]);
});

test("a request over HTTP is found by the id in its body", async () => {
  const { http } = await up.next("child-ready", (child) => child["http"] !== undefined);
  const input = { name: "x", datatype: "FP32", shape: [1, 1], data: [1] };
  const answer = await fetch(`${String(http)}/v2/models/wide/infer`, {
    method: "POST",
    headers: { "content-type": "application/json", "tutti-app": "shop", "tutti-slo": "20ms" },
    body: JSON.stringify({ id: "page-3", inputs: [input] }),
  });
  expect(answer.status).toBe(422);
  const { requests } = await listed("--request", "page-3");
  expect(requests).toMatchObject([{ app: "shop", cause: "TUTTI_DEADLINE_INFEASIBLE", by: "ingress", sloUs: 20_000 }]);
  expect(requests[0]!.feasibleUs).toBeGreaterThanOrEqual(205_000);
});

test("a request that is not kept is no explanation, and says what there is", async () => {
  const { code, stdout, stderr } = await up.command("refusals", "--request", "order-99");
  expect([code, stdout]).toEqual([1, ""]);
  expect(stderr).toContain('no ingress keeps a refused or late request "order-99"');
});

test.each([
  ["refusals", "wdie"],
  ["infer", "wdie"],
  ["infer", "wdie", "--input", "absent.json"],
  ["unload", "wdie"],
  ["profile", "wdie"],
  ["rollout", "wdie"],
  ["rollout", "wdie", "--to", "2", "--percent", "5"],
  ["rollout", "wdie", "--clear"],
  ["bench", "wdie"],
])("a name that no model has is told a similar one, and is no empty list: tutti %s %s", async (...args) => {
  const { code, stdout, stderr } = await up.command(...args);
  expect([code, stdout]).toEqual([1, ""]);
  expect(stderr).toContain('no model named "wdie" is loaded: did you mean "wide"? (TUTTI_NOT_FOUND)');
});

test("no job is submitted to a name that no model has", async () => {
  const jobs = join(folder, "jobs");
  await mkdir(jobs);
  await writeFile(join(jobs, "one.json"), "{}");
  const { code, stderr } = await up.command("jobs", "submit", jobs, "--model", "wdie", "--out", join(folder, "out"));
  expect([code, stderr]).toEqual([1, expect.stringContaining('did you mean "wide"? (TUTTI_NOT_FOUND)')]);
});

test("that a model has no dead letters is right also where it isn't there, and its name may be mistyped", async () => {
  const { code, stdout, stderr } = await up.command("jobs", "dead", "--model", "wdie");
  expect([code, stdout]).toEqual([0, "no dead letters\n"]);
  expect(stderr).toContain('did you mean "wide"?');
});

test("applications can't ask: the command names the operator's credentials", async () => {
  const { code, stderr } = await up.command("refusals", "--creds", credsOf("app-camera"));
  expect(code).toBe(1);
  expect(stderr).toContain("TUTTI_FORBIDDEN");
  expect(stderr).toContain("--creds");
});
