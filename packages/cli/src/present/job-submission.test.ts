import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type InferResult, TuttiError } from "@tutti/client";
import type { ErrorCode, ModelSpec } from "@tutti/protocol";
import { jobFiles } from "./job-files.ts";
import { JobProgress } from "./job-progress.ts";
import { type ClientJobs, JobSubmission, type SubmissionForm } from "./job-submission.ts";

const FILES = 100;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-job-submission-"));
  await mkdir(join(folder, "in"));
  for (let i = 0; i < FILES; i++)
    await writeFile(join(folder, "in", `${String(i).padStart(3, "0")}.json`), JSON.stringify({ x: [i] }));
});
afterAll(() => rm(folder, { recursive: true }));

const SPEC = { name: "m", inputs: [{ name: "x", type: "FP32", dims: [1] }] } as unknown as ModelSpec;
const FORM: SubmissionForm = {
  app: "shop",
  format: "json",
  isDetached: false,
  outputs: undefined,
  deadline: undefined,
};
const RESULT = { model: "m", outputs: { y: { type: "FP32", dims: [1], data: Float32Array.of(1) } } };
const WHY = "shop has its share of the results";

/** A queue that takes some jobs and no more until it is told to; each that it took is done at once. */
class Queue implements ClientJobs {
  readonly done = new Set<string>();
  room: number;
  readonly #code: ErrorCode;
  constructor(room: number, code: ErrorCode = "TUTTI_OVERLOADED") {
    this.room = room;
    this.#code = code;
  }
  job(_: string, id: string): ReturnType<ClientJobs["job"]> {
    return { peek: () => Promise.resolve(this.done.has(id) ? (RESULT as unknown as InferResult) : undefined) };
  }
  submit(...[, , { id = "" }]: Parameters<ClientJobs["submit"]>): ReturnType<ClientJobs["submit"]> {
    if (this.room-- <= 0) return Promise.reject(new TuttiError(this.#code, WHY, { retryAfterMs: 20 }));
    this.done.add(id);
    return Promise.resolve({ result: () => Promise.resolve(RESULT as unknown as InferResult) });
  }
}

async function submission(jobs: ClientJobs, out: string) {
  const said: string[] = [];
  const output = { isTTY: false, write: (text: string) => said.push(text) > 0 };
  const progress = new JobProgress(FILES, "reasons", output);
  const files = await jobFiles(join(folder, "in"), join(folder, out));
  const ended = new JobSubmission(jobs, SPEC, FORM, progress).run(files);
  return { ended, progress, said, written: () => readdir(join(folder, out)).catch(() => []) };
}

test.each(["TUTTI_OVERLOADED", "TUTTI_UNAVAILABLE"] as const)(
  "results are written while the queue takes no more (%s), by a second run too, and the reason is told once",
  async (code) => {
    const jobs = new Queue(40, code);
    const first = await submission(jobs, `first-${code}`);
    await expect.poll(async () => (await first.written()).length).toBe(40);
    expect(first.said).toEqual([`tutti: waits: ${WHY}\n`]);
    expect(first.progress.text(0)).toContain(`waits: ${WHY}`);

    // More than are submitted at once are not done: they must not hold up those behind them.
    const some = [...jobs.done].slice(-8);
    jobs.done.clear();
    for (const id of some) jobs.done.add(id);
    const second = await submission(jobs, `second-${code}`);
    await expect.poll(async () => (await second.written()).length).toBe(some.length);

    jobs.room = Infinity;
    await Promise.all([first.ended, second.ended]);
    for (const { progress, written } of [first, second]) {
      expect(progress.failures).toEqual([]);
      expect(progress.counts).toEqual({ files: FILES, submitted: FILES, found: 0, done: FILES });
      expect((await written()).length).toBe(FILES);
    }
  },
);

test("a result that can't be written is that file's failure, and the others go on", async () => {
  await mkdir(join(folder, "third/007.json.json"), { recursive: true });
  const { ended, progress } = await submission(new Queue(Infinity), "third");
  await ended;
  expect(progress.counts.done).toBe(FILES - 1);
  expect(progress.failures).toMatchObject([{ path: join(folder, "in/007.json"), code: "TUTTI_COMMAND" }]);
});
