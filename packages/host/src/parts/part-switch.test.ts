import { afterEach, expect, test } from "vitest";
import { ProcessLog } from "../agent/process-log.ts";
import { keeperOf } from "../agent/process-manager.ts";
import { HeardSupervisor, PROCESS_TIMES } from "../testing/heard-supervisor.ts";
import type { ChildSpec } from "../up/supervisor.ts";
import { PartSwitch } from "./part-switch.ts";

/** Reports its part, and when it is released; a part of 34 percent never becomes ready. */
const ACTOR = `
  const part = process.argv.includes("--part") ? process.argv[process.argv.indexOf("--part") + 1] : "100";
  const held = process.env.TUTTI_HELD !== undefined;
  process.on("disconnect", () => process.exit(0));
  process.on("SIGTERM", () => { console.log("ends"); process.exit(0); });
  process.on("message", (message) => { if (message.serve) console.log("serves"); });
  if (part === "34") process.exit(7);
  console.log("loaded " + process.argv.slice(1).join(" "));
  process.send({ ready: true, held });
`;
const spec: ChildSpec = { name: "executor-0", command: process.execPath, args: ["-e", ACTOR, "--", "--gpus", "0"] };

class Host extends HeardSupervisor {
  readonly parts: string[] = [];
  readonly switch: PartSwitch;

  constructor() {
    super({
      onReady: (name) => `${name} is ready`,
      onLine: (name, line) => `${name} ${line}`,
      onExit: (name) => `${name} is gone`,
    });
    this.switch = new PartSwitch({
      supervisor: this.supervisor,
      executors: new Map([
        [
          "executor-0",
          { spec, gpu: 0, machine: { provider: "emulated", cores: [], hasTaskset: false }, memory: 1_000 },
        ],
      ]),
      why: () => "it drives 4 accelerators",
      gpuCount: 4,
      onPart: (name, isThere) => void this.parts.push(`${isThere ? "+" : "-"}${name}`),
    });
  }
  async start(): Promise<void> {
    this.supervisor.start(spec);
    await this.until(() => this.supervisor.list()[0]?.state === "ready");
  }
  get running(): string[] {
    return this.supervisor.list().flatMap(({ spec: { name }, state }) => (state === "ready" ? [name] : []));
  }
  before(one: string, other: string): void {
    expect([this.told.indexOf(one), this.told.indexOf(other)]).not.toContain(-1);
    expect(this.told.indexOf(one), `${one} before ${other}`).toBeLessThan(this.told.indexOf(other));
  }
}

let host: Host;
afterEach(() => host.supervisor.stop({ graceMs: 5_000 }));
const options = PROCESS_TIMES;
const timeout = 60_000;

test(
  "split, resized and whole again: new processes load beside the old, and serve when those have ended",
  { timeout },
  async () => {
    host = new Host();
    await host.start();
    await host.switch.split("executor-0", 60, options);
    await host.until(() => host.told.filter((line) => line.endsWith(" serves")).length === 2);
    expect(host.running).toEqual(["executor-0-a60", "executor-0-b40"]);
    expect(host.told).toContain("executor-0-a60 loaded --gpus 0 --gpus 4 --part 60 --threads 1 --memory 600");
    // The lines of two processes come over two pipes, in any order: the supervisor's own events order them.
    host.before("executor-0-a60 is ready", "executor-0 ends");
    host.before("executor-0-b40 is ready", "executor-0 ends");
    host.before("executor-0 is gone", "executor-0-a60 serves");
    host.before("executor-0-b40 loaded --gpus 0 --gpus 5 --part 40 --threads 1 --memory 400", "executor-0-b40 serves");
    expect(host.switch.isSplit("executor-0")).toBe(true);

    await host.switch.split("executor-0", 50, options);
    await host.until(() => host.told.includes("executor-0-b50 serves") && host.told.includes("executor-0-a50 serves"));
    expect(host.running).toEqual(["executor-0-a50", "executor-0-b50"]);
    host.before("executor-0-b40 is gone", "executor-0-a50 serves");
    host.before("executor-0-a60 is gone", "executor-0-a50 serves");

    await host.switch.split("executor-0", 100, options);
    await host.until(() => host.told.includes("executor-0 serves"));
    expect(host.running).toEqual(["executor-0"]);
    host.before("executor-0-b50 is gone", "executor-0 serves");
    expect(host.switch.isSplit("executor-0")).toBe(false);
    expect(host.parts).toEqual([
      ...["+executor-0-a60", "+executor-0-b40", "+executor-0-a50", "+executor-0-b50"],
      ...["-executor-0-a60", "-executor-0-b40", "-executor-0-a50", "-executor-0-b50"],
    ]);
  },
);

test("a part that doesn't come up leaves everything as it was", { timeout }, async () => {
  host = new Host();
  await host.start();
  await expect(host.switch.split("executor-0", 66, options)).rejects.toThrow(
    "executor-0-b34 ended before it was ready; everything is as it was",
  );
  expect(host.running).toEqual(["executor-0"]);
  expect(host.supervisor.list()).toHaveLength(1);
  expect(host.told).not.toContain("executor-0 ends");
  expect(host.switch.isSplit("executor-0")).toBe(false);
});

test("one that dies after it was let go serves again without being asked", { timeout }, async () => {
  host = new Host();
  await host.start();
  await host.switch.split("executor-0", 50, options);
  const serves = (): number => host.told.filter((line) => line === "executor-0-a50 serves").length;
  await host.until(() => serves() === 1);
  process.kill(host.supervisor.pidOf("executor-0-a50")!, "SIGKILL");
  await host.until(() => serves() === 2);
  expect(host.running).toContain("executor-0-b50");
});

test("what can't be split says why, and a size that is there already changes nothing", { timeout }, async () => {
  host = new Host();
  await host.start();
  await expect(host.switch.split("executor-9", 50, options)).rejects.toThrow("it drives 4 accelerators");
  const said: string[] = [];
  await host.switch.split("executor-0", 100, { ...options, report: (text) => said.push(text) });
  expect(said).toEqual(["executor-0 is whole already"]);
  expect(host.running).toEqual(["executor-0"]);
});

test("while an accelerator is split nobody starts its whole executor beside the parts", { timeout }, async () => {
  host = new Host();
  await host.start();
  const { supervisor } = host;
  const processManager = keeperOf({
    supervisor,
    logs: new ProcessLog(),
    roleOf: () => "executor",
    parts: () => host.switch,
  });
  await processManager.perform("split", "executor-0", { ...options, size: 50 });
  for (const order of ["undrain", "drain"] as const)
    await expect(processManager.perform(order, "executor-0", options)).rejects.toThrow("its parts run instead");
  const said: string[] = [];
  await processManager.perform("restart", "executor-0", { ...options, report: (text) => said.push(text) });
  expect(said).toEqual([expect.stringContaining("its parts run instead")]);
  expect(host.running).toEqual(["executor-0-a50", "executor-0-b50"]);
  const bare = keeperOf({ supervisor, logs: new ProcessLog(), roleOf: () => "executor" });
  await expect(bare.perform("split", "executor-0", { ...options, size: 50 })).rejects.toThrow("can't be split here");
});
