/**
 * An operator's commands to a running system, from a second shell. They look at it, restart it under load, and drain
 * its executors.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type Tutti, connect } from "@tutti/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ROOT, TuttiUp, tutti } from "./tutti-up.ts";

/**
 * Two executors of two accelerators each. l(8) = 200 ms, so the remaining ones serve 80 requests a second while one
 * restarts.
 */
const PROFILES = "models: [{ name: echo, sloMs: 4000, batchMax: 8, alphaMs: 20, betaMs: 40 }]\n";
const PER_SECOND = 40;
/** Time for every process to start anew, one after the other, on a machine that may be busy. */
const ROLLING_MS = 300_000;

let folder: string;
let up: TuttiUp;
let client: Tutti;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-e2e-operators-"));
  const profiles = join(folder, "profiles.yaml");
  await writeFile(profiles, PROFILES);
  up = await TuttiUp.start(["--layout", "spread", "--emulate", profiles, "--gpus", "4", "--executors", "2"]);
  client = await connect({ servers: up.url, app: "e2e" });
}, ROLLING_MS);
afterAll(async () => {
  await client?.close();
  await up?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

interface ActorRow {
  readonly actor: string;
  readonly role: string;
  readonly process: string;
  readonly pid: number;
  readonly restarts: number;
  readonly health: readonly string[];
}
const json = async <T>(...args: string[]): Promise<T> => {
  const { code, stdout, stderr } = await up.command(...args, "--json");
  expect([args, code, stderr]).toEqual([args, 0, ""]);
  return JSON.parse(stdout) as T;
};
const actors = (): Promise<ActorRow[]> => json<ActorRow[]>("actors");
const linesOf = (stdout: string): Record<string, unknown>[] =>
  stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);

const PROCESSES = [
  "batcher",
  "executor-0",
  "executor-1",
  "gateway",
  "ingress",
  "jobs",
  "planner",
  "profiler",
  "ranker-0",
  "ranker-1",
];

/** Open-loop: each request carries its own number, and its answer must be that number. */
class Load {
  readonly #outcomes: Promise<string>[] = [];
  readonly #startedAt = performance.now();
  readonly #timer = setInterval(() => this.#sendDue(), 5);

  #sendDue(): void {
    const due = ((performance.now() - this.#startedAt) * PER_SECOND) / 1_000;
    while (this.#outcomes.length < due) {
      const own = this.#outcomes.length;
      this.#outcomes.push(
        client.infer("echo", { x: [[own]] }).then(
          ({ outputs }) => (outputs["y"]?.data[0] === own ? "ok" : `answered ${own} with ${outputs["y"]?.data[0]}`),
          (error: { code?: string }) => error.code ?? String(error),
        ),
      );
    }
  }

  /** Numbers of requests by outcome, once all have ended. */
  async stop(): Promise<Record<string, number>> {
    clearInterval(this.#timer);
    const counts: Record<string, number> = {};
    for (const outcome of await Promise.all(this.#outcomes)) counts[outcome] = (counts[outcome] ?? 0) + 1;
    return counts;
  }
}

test(
  "restarting every actor in turn, under half of the load that what remains can carry, refuses and loses nothing (T9)",
  async () => {
    const before = await actors();
    expect(before.map(({ process }) => process).sort()).toEqual(PROCESSES);
    const load = new Load();
    const { code, stdout, stderr } = await up.command("restart", "all", "--json");
    const { ok, ...others } = await load.stop();
    expect([code, stderr, others]).toEqual([0, "", {}]);
    expect(ok).toBeGreaterThan(PER_SECOND);
    const events = linesOf(stdout);
    expect(events.at(-1)).toEqual({ event: "end", done: PROCESSES.length, left: [], failure: null });
    expect(
      events
        .filter(({ event }) => event === "done")
        .map(({ process }) => String(process))
        .sort(),
    ).toEqual(PROCESSES);
    const after = await actors();
    expect(after.map(({ restarts }) => restarts)).toEqual(PROCESSES.map(() => 1));
    const known = new Set(before.flatMap(({ actor, pid }) => [actor, pid]));
    expect(after.filter(({ actor, pid }) => known.has(actor) || known.has(pid))).toEqual([]);
  },
  ROLLING_MS,
);

test("a drained executor stays down while the others serve, until it is brought back", async () => {
  const drained = await up.command("drain", "executor-1");
  expect([drained.code, drained.stdout]).toEqual([0, expect.stringContaining("1 of 1 drained.")]);
  expect((await actors()).find(({ process }) => process === "executor-1")).toMatchObject({
    pid: 0,
    health: ["drained"],
  });
  const status = await json<{ accelerators: { gpu: number }[] }>("status");
  expect(status.accelerators.map(({ gpu }) => gpu)).toEqual([0, 1]);
  expect((await client.infer("echo", { x: [[5]] })).outputs["y"]?.data[0]).toBe(5);
  expect((await up.command("undrain", "executor-1")).code).toBe(0);
  const { accelerators } = await json<{ accelerators: { gpu: number; serving: boolean }[] }>("status");
  expect(accelerators.map(({ gpu, serving }) => [gpu, serving])).toEqual([0, 1, 2, 3].map((gpu) => [gpu, true]));
});

test("status and top show what is asked, refused and computed, and what it costs", async () => {
  const load = new Load();
  await new Promise((resolve) => setTimeout(resolve, 2_000)); // seconds of load: figures are means over a few seconds
  const [status, top] = [
    await json<{ models: Record<string, number>[]; rankers: { leads: boolean }[] }>("status"),
    await json<{ actors: Record<string, number>[]; accelerators: { busy: number }[] }>("top", "--once"),
  ];
  await load.stop();
  const [echo] = status.models;
  expect(echo).toMatchObject({ name: "echo", state: "ready" });
  expect(echo!["offered"]).toBeGreaterThan(PER_SECOND / 10);
  expect(echo!["good"]).toBeGreaterThan(PER_SECOND / 10);
  expect(echo!["p99Us"]).toBeGreaterThan(20_000); // a run takes so long
  expect(status.rankers.map(({ leads }) => leads).sort()).toEqual([false, true]);
  expect(top.actors).toHaveLength(PROCESSES.length);
  for (const actor of top.actors) {
    expect(actor["cpu"]).toBeGreaterThan(0);
    expect(actor["rssBytes"]).toBeGreaterThan(10_000_000);
    expect(actor["messagesPerSecond"]).toBeGreaterThan(0);
  }
  expect(Math.max(...top.accelerators.map(({ busy }) => busy))).toBeGreaterThan(0);
});

interface Line {
  readonly process: string;
  readonly line: string;
}
/** The actor whose line says that it is ready; undefined for any other line. */
const readyOf = ({ line }: Line): string | undefined => {
  if (!line.startsWith("{")) return undefined;
  const { msg, instance } = JSON.parse(line) as { msg?: string; instance?: string };
  return msg === "ready" ? instance : undefined;
};

test("logs come from the agent, and are followed while a process is replaced, by one operator at a time", async () => {
  const { stdout } = await up.command("logs", "all", "--json");
  const lines = linesOf(stdout) as unknown as Line[];
  const known = new Set(lines.map(readyOf).filter((instance) => instance !== undefined));
  expect(new Set(lines.map(({ process }) => process))).toEqual(new Set(PROCESSES));
  const following = follow("logs", "ranker-1", "--follow", "--json");
  const replaced = following.line((line) => !known.has(readyOf(line) ?? [...known][0]!));
  // Two restarts at once would restart two rankers at once. So the second command waits for the first, or is refused
  // while the first is at work.
  const both = await Promise.all(["ranker-0", "ranker-1"].map((name) => up.command("restart", name)));
  for (const { code, stderr } of both)
    expect([code, stderr]).toEqual(
      code === 0 ? [0, ""] : [1, expect.stringMatching(/is at work \(restart ranker-[01]\)/)],
    );
  expect(both.map(({ code }) => code)).toContain(0);
  if (both[1]?.code === 1) expect((await up.command("restart", "ranker-1")).code).toBe(0);
  expect((await replaced).process).toBe("ranker-1");
  expect(await following.stop()).toBe(0);
});

/** A command that runs until Ctrl-C. */
function follow(...args: string[]) {
  const main = join(ROOT, "packages/cli/src/main.ts");
  const env = { ...process.env, TUTTI_RUN_DIR: up.runDirectory };
  const child: ChildProcess = spawn(process.execPath, [main, ...args], { stdio: ["ignore", "pipe", "inherit"], env });
  const seen: Line[] = [];
  let look = (): void => undefined;
  createInterface({ input: child.stdout! }).on("line", (line) => {
    seen.push(JSON.parse(line) as Line);
    look();
  });
  return {
    line: (fits: (line: Line) => boolean): Promise<Line> =>
      new Promise((resolve) => {
        look = () => {
          const found = seen.find(fits);
          if (found !== undefined) resolve(found);
        };
        look();
      }),
    stop: async (): Promise<number | null> => {
      child.kill("SIGINT");
      await once(child, "exit");
      return child.exitCode;
    },
  };
}

test("a role that runs alone is restarted through its own agent", async () => {
  const creds = (user: string): string => join(up.runDirectory, new URL(up.url).port, `creds/${user}.nk`);
  const flags = ["--nats", up.url, "--creds", creds("executor"), "--agent-creds", creds("agent"), "--host", "far"];
  const main = join(ROOT, "packages/cli/src/main.ts");
  const child = spawn(process.execPath, [main, "run", "executor", ...flags, "--engine", "emulated", "--gpus", "9"], {
    stdio: "ignore",
  });
  const find = async (): Promise<ActorRow> => {
    for (;;) {
      const row = (await actors()).find(({ process }) => process === "executor");
      if (row !== undefined && row.actor !== "") return row; // it has reported that it is ready
    }
  };
  try {
    const { actor, pid } = await find();
    expect(await up.command("restart", actor.slice(0, 6))).toMatchObject({ code: 0, stderr: "" });
    const after = await find();
    expect([after.pid === pid, after.restarts]).toEqual([false, 1]);
  } finally {
    child.kill("SIGTERM");
    await once(child, "exit");
  }
  expect(child.exitCode).toBe(0);
});

test("nobody without the operator's credentials sees or restarts anything, and is told what to bring", async () => {
  const env = { ...process.env, TUTTI_RUN_DIR: folder };
  const creds = join(up.runDirectory, new URL(up.url).port, "creds/ingress.nk");
  const asked = [["restart", "all"], ["actors"], ["logs", "all"], ["restart", "all", "--creds", creds]];
  const results = await Promise.all(asked.map((args) => tutti([...args, "--nats", up.url], env)));
  for (const [i, { code, stderr }] of results.entries()) {
    const told: unknown = expect.stringMatching(/does not allow .*--creds creds\/admin\.nk.*TUTTI_FORBIDDEN/);
    expect([asked[i], code, stderr]).toEqual([asked[i], 1, told]);
  }
});
