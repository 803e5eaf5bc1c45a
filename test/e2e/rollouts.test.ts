/**
 * Versions of a model on real processes. The tests run a canary from 0 to 100 % and back under load, a shadow that
 * finds a difference, and a rollout that is rolled back automatically.
 */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Tutti, TuttiError, connect } from "@tutti/client";
import { generateAddOne, generateMlp } from "@tutti/onnx-tools";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TuttiUp } from "./tutti-up.ts";

let up: TuttiUp;
let client: Tutti;
let folder: string;

/** A long SLO: these tests check where requests go, and other suites how soon they are answered. */
const SLO = "5s";
const EVERY_MS = 20;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-rollouts-"));
  await mkdir(join(folder, "models/add/1"), { recursive: true });
  await writeFile(join(folder, "models/add/1/model.onnx"), generateAddOne());
  await writeFile(join(folder, "models/add/config.yaml"), "slo: 500ms\nmax_batch_size: 8\npatience: 0.2\n");
  await writeFile(join(folder, "same.onnx"), generateAddOne());
  await writeFile(join(folder, "other.onnx"), generateMlp({ widths: [4, 4] }));
  up = await TuttiUp.start(["--models", join(folder, "models"), "--no-demo"]);
  client = await connect({ servers: up.url, app: "e2e" });
});
afterAll(async () => {
  await client?.close();
  await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

/**
 * Requests one after another in time, each counted once under the version that answered, or the code of its refusal.
 */
class Load {
  readonly counts: Record<string, number> = {};
  /** Outcomes of all requests, also of those sent while a command ran. */
  readonly ever = new Set<string>();
  sent = 0;
  wrong = 0;
  #under: Promise<void>[] = [];
  readonly #timer = setInterval(() => this.#under.push(this.#ask()), EVERY_MS);

  async #ask(): Promise<void> {
    const x = Float32Array.of(this.sent, 2, 3, 4);
    this.sent++;
    const counted = await client.infer("add", { x }, { slo: SLO, id: `request-${this.sent}` }).then(
      ({ version, outputs }) => {
        const y = outputs["y"]?.data as Float32Array | undefined;
        if (y?.[0] !== x[0]! + 1) this.wrong++;
        return version ?? "1";
      },
      (error: unknown) => (error instanceof TuttiError ? error.code : String(error)),
    );
    this.counts[counted] = (this.counts[counted] ?? 0) + 1;
    this.ever.add(counted);
  }

  async until(count: number): Promise<void> {
    const goal = this.sent + count;
    while (this.sent < goal) await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
  }
  /** Counts of the outcomes since the last call. */
  async take(): Promise<Record<string, number>> {
    await Promise.all(this.#under.splice(0));
    const counts = { ...this.counts };
    for (const key of Object.keys(this.counts)) delete this.counts[key];
    return counts;
  }
  stop(): void {
    clearInterval(this.#timer);
  }
}

const json = async (...args: string[]): Promise<{ code: number; body: Record<string, unknown> }> => {
  const { code, stdout, stderr } = await up.command(...args, "--json");
  try {
    return { code, body: JSON.parse(stdout) as Record<string, unknown> };
  } catch {
    throw new Error(`${args.join(" ")}: ${stdout}${stderr}`);
  }
};
const total = (counts: Record<string, number>): number => Object.values(counts).reduce((sum, count) => sum + count, 0);

test("a version is loaded beside the first, gets a tenth, everything, and nothing again, and no request is refused or lost by it", async () => {
  const loaded = await json(
    "load",
    join(folder, "same.onnx"),
    "--name",
    "add",
    "--version",
    "2",
    "--slo",
    "500ms",
    "--max-batch",
    "8",
  );
  expect([loaded.code, loaded.body]).toMatchObject([0, [{ name: "add/2", version: "2", state: "ready" }]]);
  const load = new Load();
  try {
    await load.until(20);
    expect(Object.keys(await load.take())).toEqual(["1"]);
    const figures: string[] = [];
    for (const percent of ["10", "100"]) {
      expect((await json("rollout", "add", "--to", "2", "--percent", percent)).code).toBe(0);
      await load.take(); // drops the requests that were under way while the command ran
      await load.until(percent === "10" ? 100 : 40);
      const counts = await load.take();
      figures.push(`${percent} %: ${JSON.stringify(counts)}`);
      expect(total(counts)).toBe((counts["1"] ?? 0) + (counts["2"] ?? 0));
      if (percent === "10") expect([counts["1"]! > 50, counts["2"]! > 0]).toEqual([true, true]);
      else expect(counts["1"]).toBeUndefined();
    }
    const back = performance.now();
    expect((await json("rollout", "add", "--back")).body["versions"]).toMatchObject([{ percent: 90 }, { percent: 10 }]);
    figures.push(`back within ${Math.round(performance.now() - back)} ms, the command's start included`);
    expect((await json("rollout", "add", "--to", "1", "--percent", "100")).code).toBe(0);
    await load.take();
    await load.until(20);
    expect(Object.keys(await load.take())).toEqual(["1"]);
    expect([load.wrong, [...load.ever].sort()]).toEqual([0, ["1", "2"]]);
    console.log(`rollout on real processes, ${load.sent} requests at ${1_000 / EVERY_MS}/s: ${figures.join("; ")}`);
  } finally {
    load.stop();
  }
});

test("whoever names a version gets it, and one that is not there is refused", async () => {
  const x = Float32Array.of(1, 2, 3, 4);
  expect((await client.infer("add", { x }, { slo: SLO, version: "2" })).version).toBe("2");
  expect((await client.infer("add/2", { x }, { slo: SLO })).version).toBe("2");
  await expect(client.infer("add", { x }, { slo: SLO, version: "9" })).rejects.toMatchObject({
    code: "TUTTI_NOT_FOUND",
  });
  const refused = await json("rollout", "add", "--to", "9", "--percent", "5");
  expect([refused.code, refused.body]).toMatchObject([1, { code: "TUTTI_NOT_FOUND" }]);
});

test("a shadow whose answers differ is found out without anybody getting one, and a rollout to it turns back by itself", async () => {
  const loaded = await json(
    "load",
    join(folder, "other.onnx"),
    "--name",
    "add/3",
    "--slo",
    "500ms",
    "--max-batch",
    "8",
  );
  expect(loaded.code).toBe(0);
  expect((await json("rollout", "add", "--shadow", "3")).code).toBe(0);
  const load = new Load();
  try {
    let shadow: Record<string, unknown> = {};
    for (let look = 0; look < 20 && !(Number(shadow["compared"]) >= 5); look++) {
      await load.until(20);
      shadow = (await json("rollout", "add")).body["shadow"] as Record<string, unknown>;
    }
    console.log(`shadow: ${JSON.stringify(shadow)}`);
    expect(Number(shadow["compared"])).toBeGreaterThanOrEqual(5);
    expect(shadow["differ"]).toBe(shadow["compared"]);
    expect(Object.keys(await load.take())).toEqual(["1"]);
    const to = ["--to", "3", "--percent", "100", "--over", "10m", "--max-mismatch", "0%"];
    const ended = await json("rollout", "add", ...to);
    expect([ended.code, ended.body["done"]]).toEqual([1, false]);
    expect(ended.body["why"]).toMatch(/^version 3 was rolled back at 1 %: \d+ of \d+ compared answers differ/);
    const status = await up.command("status", "--once");
    expect(status.stdout).toContain("add: version 3 was rolled back");
    await load.take();
    await load.until(20);
    expect(Object.keys(await load.take())).toEqual(["1"]);
    // At 1 % a request may have reached the third version before the rollback; none was refused.
    expect([...load.ever].filter((version) => !["1", "3"].includes(version))).toEqual([]);
  } finally {
    load.stop();
  }
});
