/**
 * The NATS server hangs while requests come over HTTP. Gateway, ingress, batcher and ranker share a process, and the
 * executor is at the other end of a link: none of them needs the server, whether its connection stands or was given up.
 */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { askOverHttp } from "./chaos/http-asker.ts";
import { TuttiUp, commandOf } from "./tutti-up.ts";

const SLO_MS = 1_000;
const PER_SECOND = 100;
/** A client gives its connection up after 6 to 9 s without an answer, and each attempt at the next after 5 s. */
const FROZEN_MS = 15_000;
let folder: string;
let up: TuttiUp;
let url: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-frozen-"));
  const profiles = join(folder, "profiles.yaml");
  await writeFile(profiles, `models: [{ name: quick, sloMs: ${SLO_MS}, batchMax: 8, alphaMs: 0.5, betaMs: 2 }]\n`);
  up = await TuttiUp.start(["--emulate", profiles, "--gpus", "2"]);
  url = String((await up.next("child-ready", ({ http }) => http !== undefined))["http"]);
});
afterAll(async () => {
  await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

function ask(): Promise<string> {
  const question = { model: "quick", app: "e2e", sloUs: 1_000 * SLO_MS, row: [1] };
  return new Promise((resolve) =>
    askOverHttp([{ name: "node", url }], question, {
      onAsked: () => undefined,
      onBroken: (_, code) => resolve(`broken: ${code}`),
      onAnswer: resolve,
    }),
  );
}

/** Asks for so long, whatever the answers. @returns how often each status came */
function load(ms: number): Promise<Record<string, number>> {
  const asked: Promise<string>[] = [];
  return new Promise((resolve) => {
    const startMs = performance.now();
    const timer = setInterval(() => {
      const passedMs = Math.min(ms, performance.now() - startMs);
      while (asked.length < (passedMs * PER_SECOND) / 1_000) asked.push(ask());
      if (passedMs < ms) return;
      clearInterval(timer);
      resolve(Promise.all(asked).then(countsOf));
    }, 5);
  });
}
function countsOf(statuses: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const status of statuses) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}
function okShare({ ok = 0, ...others }: Record<string, number>): number {
  return ok / Object.values(others).reduce((sum, count) => sum + count, ok);
}

interface Line {
  readonly level: string;
  readonly time: string;
  readonly msg: string;
}
async function linesOf(name: string): Promise<Line[]> {
  const text = await readFile(join(up.runDirectory, new URL(up.url).port, "logs", `${name}.log`), "utf8");
  return text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Line]));
}

test("requests over HTTP are answered while NATS hangs, and the first line of the log names the cause", async () => {
  const before = await load(3_000);
  const pid = up.processes().find((one) => commandOf(one).includes("nats-server"))!;
  const struckAt = new Date();
  process.kill(pid, "SIGSTOP");
  const during = await load(FROZEN_MS).finally(() => process.kill(pid, "SIGCONT"));
  const isBack = ({ name, text }: Record<string, unknown>): boolean =>
    name === "node" && String(text).startsWith("NATS is back");
  await up.next("child-line", isBack);
  const after = await load(3_000);
  process.stdout.write(`${JSON.stringify({ before, during, after })}\n`);
  // A busy machine refuses some requests at any time.
  expect(okShare(during)).toBeGreaterThanOrEqual(0.999 * okShare(before));
  expect(okShare(after)).toBeGreaterThanOrEqual(0.99 * okShare(before));
  for (const name of ["node", "executor-0"]) {
    const warned = (await linesOf(name)).filter(({ level, time }) => level !== "info" && new Date(time) >= struckAt);
    expect(warned[0]?.msg).toMatch(/^NATS can't be reached: it has answered nothing for \d/);
    expect(warned.filter(({ msg }) => msg.includes("slow consumer"))).toEqual([]);
  }
  expect((await linesOf("node")).filter(({ msg }) => msg === "leads" || msg.includes("deposed"))).toHaveLength(1);
}, 60_000);
