import { afterEach, expect, test } from "vitest";
import { HeardSupervisor, PROCESS_TIMES } from "../testing/heard-supervisor.ts";
import { bringBack, drainProcess, replaceProcess, replacementOrder } from "./replacement.ts";
import type { ChildSpec } from "./supervisor.ts";

const LIVES = `process.on("disconnect", () => process.exit(0)); process.on("SIGTERM", () => { console.log("leaves"); process.exit(0); });`;
const script = (code: string): ChildSpec => ({ name: "actor", command: process.execPath, args: ["-e", code] });

/** The events of one actor, with pids instead of its name. */
class Story extends HeardSupervisor {
  constructor() {
    super({
      onReady: (_, { pid }) => `ready ${String(pid)}`,
      onLine: (_, line) => line,
      onExit: (_, how, next) => `${how} ${typeof next === "string" ? next : "again"}`,
    });
  }

  async start(code: string): Promise<number> {
    this.supervisor.start(script(code));
    await this.until(() => this.supervisor.list()[0]?.state === "ready");
    return this.pid;
  }
  get pid(): number {
    return this.supervisor.pidOf("actor") ?? 0;
  }
}

const READY = `process.send({ ready: true, pid: process.pid });`;
let story: Story;
afterEach(() => story.supervisor.stop({ graceMs: 5_000 }));
const options = PROCESS_TIMES;

test("spare-first: the old process is asked to leave only when the new one is ready", async () => {
  story = new Story();
  const old = await story.start(LIVES + READY);
  await replaceProcess(story.supervisor, { name: "actor", order: "spare-first", ...options });
  await story.until(() => story.told.includes("exit code 0 stopped"));
  expect(story.pid).not.toBe(old);
  expect(story.told).toEqual([`ready ${old}`, `ready ${story.pid}`, "leaves", "exit code 0 stopped"]);
  expect(story.supervisor.list()).toMatchObject([{ state: "ready", restarts: 1, ready: { pid: story.pid } }]);
});

test("stop-first: the new process starts only when the old one has ended", async () => {
  story = new Story();
  const old = await story.start(LIVES + READY);
  await replaceProcess(story.supervisor, { name: "actor", order: "stop-first", ...options });
  expect(story.told).toEqual([`ready ${old}`, "leaves", "exit code 0 stopped", `ready ${story.pid}`]);
});

test("stop-first also where the last lines of the old process come after the new one has started", async () => {
  story = new Story();
  // A grandchild keeps the old process's output open: its exit is known before the end of its output.
  const late = `require("node:child_process").spawn("sleep", ["1"], { stdio: "inherit", detached: true }).unref();`;
  await story.start(LIVES + READY + late);
  await replaceProcess(story.supervisor, { name: "actor", order: "stop-first", ...options });
  const { pid } = story;
  await story.until(() => story.told.includes("exit code 0 stopped"));
  expect([story.pid, story.supervisor.list()[0]]).toEqual([
    pid,
    expect.objectContaining({ state: "ready", restarts: 1 }),
  ]);
});

test("a replacement that dies at its start, or is never ready, leaves the old process as it was", async () => {
  story = new Story();
  // The first process is ready at once; later ones are not, and behave as the environment says.
  process.env["TUTTI_TEST_FIRST"] = "yes";
  const old = await story.start(
    `${LIVES} if (process.env.TUTTI_TEST_FIRST === "yes") { ${READY} } else if (process.env.TUTTI_TEST_FIRST === "dies") process.exit(7);`,
  );
  process.env["TUTTI_TEST_FIRST"] = "dies";
  const dying = replaceProcess(story.supervisor, { name: "actor", order: "spare-first", ...options });
  await expect(dying).rejects.toThrow(/ended before it was ready \(exit code 7\); the one that ran goes on/);
  process.env["TUTTI_TEST_FIRST"] = "silent";
  const silent = replaceProcess(story.supervisor, { name: "actor", order: "spare-first", ...options, readyMs: 300 });
  await expect(silent).rejects.toThrow(/was not ready within 0.3 s; the one that ran goes on/);
  delete process.env["TUTTI_TEST_FIRST"];
  expect([story.pid, isAlive(old)]).toEqual([old, true]);
});

test("an old process that dies while its replacement starts is not started again as well", async () => {
  story = new Story();
  const old = await story.start(LIVES + READY);
  const replacing = replaceProcess(story.supervisor, { name: "actor", order: "spare-first", ...options });
  process.kill(old, "SIGKILL");
  await replacing;
  await story.until(() => story.told.filter((line) => line.startsWith("ready")).length >= 2);
  const { restarts } = story.supervisor.list()[0]!;
  // If the actor's own restart was quicker than the replacement, the restarted process leaves instead, and one process
  // is left in both cases.
  expect(restarts).toBeLessThanOrEqual(2);
  expect(story.supervisor.list()).toMatchObject([{ state: "ready" }]);
});

test("what was drained stays down until it is brought back", async () => {
  story = new Story();
  await story.start(LIVES + READY);
  await drainProcess(story.supervisor, "actor", options);
  await story.until(() => story.told.includes("exit code 0 stopped"));
  expect(story.supervisor.list()).toMatchObject([{ state: "parked", pid: undefined }]);
  await bringBack(story.supervisor, "actor", options);
  expect(story.supervisor.list()).toMatchObject([{ state: "ready", restarts: 1 }]);
});

test("what runs is not said to start when it is brought back", async () => {
  story = new Story();
  await story.start(LIVES + READY);
  const { pid } = story.supervisor.list()[0]!;
  const reports: string[] = [];
  await bringBack(story.supervisor, "actor", { ...options, report: (text) => reports.push(text) });
  expect(reports).toEqual([`actor: was not drained, and runs on (pid ${pid})`]);
  expect(story.supervisor.list()).toMatchObject([{ state: "ready", pid, restarts: 0 }]);
});

test("a process that ignores being asked is killed when its time is over, and reported", async () => {
  story = new Story();
  await story.start(
    `process.on("disconnect", () => process.exit(0)); process.on("SIGTERM", () => {}); ${READY} setInterval(() => {}, 1e6);`,
  );
  const reports: string[] = [];
  await drainProcess(story.supervisor, "actor", { ...options, graceMs: 100, report: (text) => reports.push(text) });
  expect(reports.at(-1)).toMatch(/did not end within 0\.\d s and was killed/);
});

test("only what there can be one of is stopped before its replacement starts", () => {
  const roles = ["ingress", "batcher", "ranker", "executor", "profiler", "planner", "gateway", "jobs"] as const;
  expect(roles.filter((role) => replacementOrder(role) === "spare-first")).toEqual(["ingress", "batcher", "ranker"]);
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
