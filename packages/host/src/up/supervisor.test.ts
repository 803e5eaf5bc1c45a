import { setTimeout as wait } from "node:timers/promises";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { type ChildSpec, Supervisor, type SupervisorEvents, endProcess } from "./supervisor.ts";

const READY = `process.send({ ready: true, pid: process.pid }); process.on("disconnect", () => process.exit(0));`;
const script = (name: string, code: string): ChildSpec => ({ name, command: process.execPath, args: ["-e", code] });

interface Event {
  readonly kind: "ready" | "line" | "exit";
  readonly name: string;
  readonly detail: unknown;
}

/** Records events, and hands out each once, in order of arrival within its kind. */
class Recorder implements SupervisorEvents {
  readonly events: Event[] = [];
  readonly #waiting: { kind: Event["kind"]; resolve: (event: Event) => void }[] = [];

  onReady = (name: string, message: Readonly<Record<string, unknown>>): void => this.#add("ready", name, message);
  onLine = (name: string, line: string): void => this.#add("line", name, line);
  onExit = (name: string, how: string, next: unknown): void => this.#add("exit", name, { how, next });

  next(kind: Event["kind"]): Promise<Event> {
    const index = this.events.findIndex((event) => event.kind === kind);
    if (index >= 0) return Promise.resolve(this.events.splice(index, 1)[0] as Event);
    return new Promise((resolve) => this.#waiting.push({ kind, resolve }));
  }

  #add(kind: Event["kind"], name: string, detail: unknown): void {
    const waiting = this.#waiting.findIndex((waiter) => waiter.kind === kind);
    if (waiting >= 0) this.#waiting.splice(waiting, 1)[0]?.resolve({ kind, name, detail });
    else this.events.push({ kind, name, detail });
  }
}

test("a child that is killed is started again", async () => {
  const recorder = new Recorder();
  const supervisor = new Supervisor(recorder, { firstMs: 1 });
  supervisor.start(script("worker", READY));
  const first = await recorder.next("ready");
  process.kill((first.detail as { pid: number }).pid, "SIGKILL");
  expect(await recorder.next("exit")).toMatchObject({ detail: { how: "SIGKILL", next: { restartMs: 1 } } });
  const second = await recorder.next("ready");
  expect((second.detail as { pid: number }).pid).not.toBe((first.detail as { pid: number }).pid);
  expect(await supervisor.stop({ graceMs: 10_000 })).toEqual([]);
});

test("a child that dies at every start is given up after the attempts it has, each later than the one before", async () => {
  const recorder = new Recorder();
  const supervisor = new Supervisor(recorder, { firstMs: 1, maxMs: 2, firstAttemptsMax: 4 });
  supervisor.start(script("broken", `console.error("no such file"); process.exit(7)`));
  const exits = [];
  for (let i = 0; i < 4; i++) exits.push((await recorder.next("exit")).detail);
  expect(exits).toEqual([
    { how: "exit code 7", next: { restartMs: 1 } },
    { how: "exit code 7", next: { restartMs: 2 } },
    { how: "exit code 7", next: { restartMs: 2 } },
    { how: "exit code 7", next: "given-up" },
  ]);
  expect(recorder.events.filter((event) => event.kind === "line").map((event) => event.detail)).toContain(
    "no such file",
  );
});

test("a child that has worked is never given up, however often it dies, and each is told how the last one ended", async () => {
  const recorder = new Recorder();
  const supervisor = new Supervisor(recorder, { firstMs: 1, maxMs: 1 });
  const told = "process.send({ ready: true, last: process.env.TUTTI_LAST_END });";
  const ends = "process.env.TUTTI_LAST_END === undefined ? process.abort() : process.exit(5);";
  supervisor.start(script("unlucky", `${told} setImmediate(() => { ${ends} });`));
  const lasts = [];
  for (let i = 0; i < 10; i++) {
    lasts.push(((await recorder.next("ready")).detail as { last?: string }).last);
    expect(await recorder.next("exit")).toMatchObject({ detail: { next: { restartMs: 1 } } });
  }
  supervisor.kill();
  expect(lasts).toEqual([undefined, "SIGABRT", ...Array.from({ length: 8 }, () => "exit code 5")]);
});

test("a command that does not exist is reported as an end, not thrown", async () => {
  const recorder = new Recorder();
  const supervisor = new Supervisor(recorder, { firstAttemptsMax: 1 });
  supervisor.start({ name: "missing", command: "/nowhere/at-all", args: [] });
  expect(await recorder.next("exit")).toMatchObject({ detail: { next: "given-up" } });
});

test("stopping asks first, and kills only what does not listen", async () => {
  const recorder = new Recorder();
  const supervisor = new Supervisor(recorder);
  supervisor.start(script("polite", READY));
  supervisor.start(script("deaf", `process.on("SIGTERM", () => {}); ${READY} setInterval(() => {}, 1000)`));
  await recorder.next("ready");
  await recorder.next("ready");
  expect(await supervisor.stop({ graceMs: 200 })).toEqual(["deaf"]);
});

test("a child that has ended is not there any more, also while its last lines may still come", async () => {
  const recorder = new Recorder();
  const supervisor = new Supervisor(recorder);
  supervisor.start(script("worker", LEAVES_AN_HEIR));
  const { heir } = (await recorder.next("ready")).detail as { heir: number };
  try {
    expect(await endProcess(supervisor.park("worker")!, 10_000)).toBe("ended");
    expect(recorder.events).toEqual([]);
    expect(supervisor.list()).toMatchObject([{ state: "parked", pid: undefined }]);
    expect(supervisor.pidOf("worker")).toBeUndefined();
  } finally {
    process.kill(heir, "SIGKILL");
  }
  expect(await recorder.next("exit")).toMatchObject({ detail: { how: "exit code 0", next: "stopped" } });
});

test("children end by themselves when the process that started them is killed", async () => {
  const parent = spawn(process.execPath, ["--input-type=module", "-e", PARENT], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await once(createInterface({ input: parent.stdout }), "line")) as [string];
  const pid = Number(line);
  expect(isAlive(pid)).toBe(true);
  parent.kill("SIGKILL");
  await once(parent, "exit");
  const deadline = performance.now() + 10_000;
  while (isAlive(pid) && performance.now() < deadline) await wait(5);
  expect(isAlive(pid)).toBe(false);
});

/** Its standard output stays open while the process that it has started lives. */
const LEAVES_AN_HEIR = `
const stdio = ["ignore", "inherit", "ignore"];
const heir = require("node:child_process").spawn(process.execPath, ["-e", "setTimeout(() => {}, 60000)"], { stdio });
process.on("SIGTERM", () => process.exit(0));
process.send({ ready: true, heir: heir.pid });
`;

const PARENT = `
import { Supervisor } from ${JSON.stringify(new URL("./supervisor.ts", import.meta.url).href)};
const quiet = { onLine() {}, onExit() {}, onReady: (_, { pid }) => console.log(pid) };
new Supervisor(quiet).start({ name: "child", command: process.execPath, args: ["-e", ${JSON.stringify(READY)}] });
`;

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
