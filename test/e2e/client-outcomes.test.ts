/**
 * Outcomes that a publisher sees (docs/architecture.md, T1). Its ingress dies, it asks for retries, or it cancels a
 * request.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Tutti, connect } from "@tutti/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TuttiUp } from "./tutti-up.ts";

/** Time beyond the 100 ms after the deadline that T1 gives the client: ten times that on a busy machine. */
const LATE_MS = 1_000;
/** A deferred batch of one starts shortly before its deadline. */
const [SLO_MS, LONG_SLO_MS] = [800, 8_000];
const ENDING_MS = 30_000;

let folder: string;
let up: TuttiUp;
let client: Tutti;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-client-"));
  const profiles = join(folder, "profiles.yaml");
  await writeFile(profiles, "models: [{ name: calm, sloMs: 800, batchMax: 8, alphaMs: 0.5, betaMs: 3 }]\n");
  up = await TuttiUp.start(["--emulate", profiles, "--gpus", "1", "--ingresses", "1", "--policy", "deferred"]);
  client = await connect({ servers: up.url, app: "outcomes" });
});
afterAll(async () => {
  await client?.close();
  await up?.stop();
  await rm(folder, { recursive: true, force: true });
});

interface Ended {
  readonly status: string;
  readonly retryable: boolean | undefined;
  readonly tookMs: number;
}
async function ask(options: Parameters<Tutti["infer"]>[2]): Promise<Ended> {
  const since = performance.now();
  const ended = (status: string, retryable?: boolean): Ended => ({
    status,
    retryable,
    tookMs: performance.now() - since,
  });
  return client.infer("calm", { x: [[1]] }, options).then(
    () => ended("ok"),
    ({ code, retryable }: { code: string; retryable: boolean }) => ended(code, retryable),
  );
}
/** Kills the ingress while it holds the request. */
async function killIngressBeneath(asking: () => Promise<Ended>): Promise<Ended> {
  const from = up.events.length;
  const outcome = asking();
  // A request of another connection that is refused at once: the ingress has taken the one before by then.
  await expect(client.infer("nothing", { x: [[1]] })).rejects.toMatchObject({ code: "TUTTI_NOT_FOUND" });
  process.kill(up.pidOf("ingress"), "SIGKILL");
  const ended = await outcome;
  await up.next("child-ready", ({ name }) => name === "ingress", from);
  return ended;
}

test("when the only ingress is killed, that is UNAVAILABLE and retryable by the deadline and what T1 allows", async () => {
  const { status, retryable, tookMs } = await killIngressBeneath(() => ask({ slo: SLO_MS }));
  expect([status, retryable]).toEqual(["TUTTI_UNAVAILABLE", true]);
  expect(tookMs).toBeGreaterThan(SLO_MS);
  expect(tookMs).toBeLessThan(SLO_MS + LATE_MS);
});

test("a request that may be sent again is answered by whoever comes after the ingress that died", async () => {
  const { status, tookMs } = await killIngressBeneath(() => ask({ slo: SLO_MS, retries: 60, within: ENDING_MS }));
  expect(status).toBe("ok");
  expect(tookMs).toBeGreaterThan(SLO_MS);
});

test("what is taken back is CANCELLED at once, for its publisher and at its ingress", async () => {
  const abort = new AbortController();
  const late = client.lateAnswers;
  const outcome = ask({ slo: LONG_SLO_MS, signal: abort.signal });
  await expect(client.infer("nothing", { x: [[1]] })).rejects.toMatchObject({ code: "TUTTI_NOT_FOUND" });
  abort.abort();
  const { status, tookMs } = await outcome;
  expect(status).toBe("TUTTI_CANCELLED");
  // A batch with it would have started seconds later.
  expect(tookMs).toBeLessThan(LONG_SLO_MS / 2);
  // The ingress' own answer arrives, unexpected, before the answer to the next request.
  await expect(client.infer("nothing", { x: [[1]] })).rejects.toMatchObject({ code: "TUTTI_NOT_FOUND" });
  expect(client.lateAnswers).toBe(late + 1);
  expect(client.inFlight).toBe(0);
});
