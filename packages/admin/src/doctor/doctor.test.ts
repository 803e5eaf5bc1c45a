import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { WriteStream } from "node:tty";
import { TUTTI_RELEASE } from "@tutti/protocol";
import { afterEach, expect, test, vi } from "vitest";
import { EXIT } from "../failure.ts";
import { type HeardActor, type HeardCluster, judgeCluster, lookAtCluster } from "./cluster-checks.ts";
import { readContext } from "./context.ts";
import { type Finding, type State, exitCodeOf, renderFindings } from "./finding.ts";
import { type MachineFacts, cpuQuotaOf, judgeMachine, judgeTimers, memoryLimitOf } from "./machine.ts";
import { measureTimers, readMachine } from "./machine-probe.ts";
import { judgeServer } from "./nats-server.ts";
import { descendants, holderOf, judgePort, listening, lookAtPorts } from "./ports.ts";
import { judgeProvider } from "./providers.ts";

const GIB = 2 ** 30;
const GOOD: MachineFacts = {
  node: "24.21.0",
  cpus: 8,
  cpuQuota: undefined,
  load: 0.5,
  memoryBytes: 16 * GIB,
  memoryFreeBytes: 12 * GIB,
  memoryLimitBytes: undefined,
  openFilesSoft: 65_536,
  openFilesHard: 1_048_576,
  store: { folder: "/var/lib/tutti", freeBytes: 40 * GIB, isInMemory: false },
};
const statesOf = (findings: readonly Finding[]): Record<string, State> =>
  Object.fromEntries(findings.map(({ check, state }) => [check, state]));
const machineWith = (facts: Partial<MachineFacts>): Record<string, State> =>
  Object.fromEntries(
    Object.entries(statesOf(judgeMachine({ ...GOOD, ...facts }))).filter(([, state]) => state !== "ok"),
  );

/** Expects a reason for each finding that is not ok, and advice for each warning and failure. */
function expectExplained(findings: readonly Finding[]): void {
  for (const { check, state, why, next } of findings) {
    if (state !== "ok") expect([check, (why ?? next ?? "").length > 20]).toEqual([check, true]);
    if (state === "warn" || state === "fail") expect([check, (next ?? "").length > 10]).toEqual([check, true]);
  }
}

test("a good machine has nothing to be said about it", () => {
  expect(machineWith({})).toEqual({});
});

test("each lack of a machine is told as what it is, with what hangs on it and what to do", () => {
  const lacks: readonly (readonly [Partial<MachineFacts>, string, State])[] = [
    [{ node: "20.19.0" }, "Node", "fail"],
    [{ node: "22.21.1" }, "Node", "fail"],
    [{ node: "23.9.0" }, "Node", "fail"],
    [{ cpus: 1 }, "processors", "warn"],
    [{ cpuQuota: 1.5 }, "processors", "warn"],
    [{ cpuQuota: 4 }, "processors", "warn"],
    [{ load: 7 }, "processors", "warn"],
    [{ memoryFreeBytes: GIB }, "memory", "warn"],
    [{ memoryLimitBytes: GIB }, "memory", "warn"],
    [{ openFilesSoft: 1_024 }, "file descriptors", "warn"],
    [{ openFilesSoft: 128 }, "file descriptors", "fail"],
    [{ store: { ...GOOD.store, freeBytes: GIB } }, "disk", "warn"],
    [{ store: { ...GOOD.store, freeBytes: 0.1 * GIB } }, "disk", "fail"],
    [{ store: { ...GOOD.store, isInMemory: true } }, "disk", "note"],
  ];
  for (const [facts, check, state] of lacks) {
    expect([facts, machineWith(facts)]).toEqual([facts, { [check]: state }]);
    expectExplained(judgeMachine({ ...GOOD, ...facts }));
  }
  expect(machineWith({ node: "22.22.0", openFilesSoft: undefined, openFilesHard: undefined })).toEqual({});
});

test("limits of control groups are read as the kernel writes them, and 'max' is none", () => {
  expect(["150000 100000\n", "max 100000\n", "", undefined].map(cpuQuotaOf)).toEqual([
    1.5,
    undefined,
    undefined,
    undefined,
  ]);
  expect(["1073741824\n", "max\n", undefined].map(memoryLimitOf)).toEqual([GIB, undefined, undefined]);
});

test("this very machine can be read, also where the folder of its store is not there yet", () => {
  const facts = readMachine(join(tmpdir(), "tutti-nowhere/run"));
  expect(facts.cpus).toBeGreaterThan(0);
  expect(facts.memoryFreeBytes).toBeGreaterThan(0);
  expect(facts.memoryFreeBytes).toBeLessThanOrEqual(facts.memoryBytes);
  expect(facts.store.freeBytes).toBeGreaterThan(0);
});

test("timers are measured on the clock of the actors, and late ones are warned of", async () => {
  const { timers } = await measureTimers(5);
  expect(timers.fires).toBeGreaterThanOrEqual(5);
  expect(judgeTimers({ p50: 60, p99: 180 } as never, 900).state).toBe("ok");
  const late = judgeTimers({ p50: 400, p99: 6_000 } as never, 9_000);
  expect(late.state).toBe("warn");
  expectExplained([late]);
});

test("a port that is taken is told with who has it; one of our own is as it should be", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((listens) => server.once("listening", listens));
  const { port } = server.address() as AddressInfo;
  try {
    const holder = holderOf(port);
    if (process.platform === "linux") expect(holder).toMatchObject({ pid: process.pid });
    const wanted = { port, what: "HTTP", flag: "--http-port" };
    expect(judgePort(wanted, { holder: { pid: 7, command: "python3" }, isOurs: false })).toMatchObject({
      state: "note",
      found: "taken by python3 (pid 7)",
    });
    expect(judgePort(wanted, { holder: undefined, isOurs: false }).found).toContain("may not see");
    expect(judgePort(wanted, { holder: { pid: 7, command: "node" }, isOurs: true }).state).toBe("ok");
    expect(judgePort(wanted, undefined)).toMatchObject({ state: "ok", found: "free (HTTP)" });
  } finally {
    server.close();
  }
  expect((await lookAtPorts(new Set())).map(({ check }) => check)).toEqual(
    [4222, 8000, 8001, 8002].map((p) => `port ${p}`),
  );
  expect(descendants([process.ppid]).has(process.ppid)).toBe(true);
});

test("only sockets that listen on just this port are taken for its holder's", () => {
  const table = [
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
    "   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0        0 111 1 0",
    "   1: 0100007F:1F40 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  0        0 222 1 0",
    "   2: 0100007F:1F41 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0        0 333 1 0",
  ].join("\n");
  expect(listening(table, 8_000)).toEqual(["111"]);
});

test("a server that is too old or says nothing can't be used, and one of 2.9 is named as old", () => {
  expect(judgeServer("/x", "2.14.0").state).toBe("ok");
  expect(judgeServer("/x", "2.9.10")).toMatchObject({ state: "note", found: "2.9.10, with JetStream (/x)" });
  expect([judgeServer("/x", "2.9.9"), judgeServer("/x", undefined)].map(({ state }) => state)).toEqual([
    "fail",
    "fail",
  ]);
});

test("without the CPU provider nothing works; without the others nothing is wrong, but where their hardware is", () => {
  expect(judgeProvider("cpu", undefined, false).state).toBe("ok");
  expect(judgeProvider("cpu", "gone", false).state).toBe("fail");
  expect(judgeProvider("webgpu", "no adapter", true).state).toBe("note");
  expect(
    [judgeProvider("cuda", "no libcudart", false), judgeProvider("cuda", "no libcudart", true)].map(
      ({ state }) => state,
    ),
  ).toEqual(["note", "warn"]);
});

const actor = (role: string, more: Partial<HeardActor> = {}): HeardActor => ({
  ...{ name: `${role}1`, role, host: "a", leads: role === "ranker", health: ["ok"], aheadUs: 0 },
  release: TUTTI_RELEASE,
  ...more,
});
const ROLES = ["ingress", "batcher", "ranker", "executor", "profiler"];
const HEARD: HeardCluster = {
  ...{ url: "nats://h:4222", serverVersion: "2.14.0", payloadMax: 8 * 2 ** 20, connectMs: 3 },
  ...{ denied: [], models: [], answeredMs: 1.5, actors: ROLES.map((role) => actor(role)), turns: [] },
};
const clusterWith = (heard: Partial<HeardCluster>): Record<string, State> => {
  const findings = judgeCluster({ ...HEARD, ...heard });
  expectExplained(findings);
  return Object.fromEntries(Object.entries(statesOf(findings)).filter(([, state]) => state !== "ok"));
};

test("each lack of a cluster is told as what it is", () => {
  expect(clusterWith({})).toEqual({});
  expect(clusterWith({ payloadMax: 2 ** 20 })).toEqual({ connection: "warn" });
  expect(clusterWith({ warning: "its replicas may differ" })).toEqual({ connection: "warn" });
  expect(clusterWith({ models: "no answer within 5 s" })).toEqual({ JetStream: "fail" });
  expect(clusterWith({ actors: [] })).toEqual({ actors: "warn" });
  expect(clusterWith({ actors: HEARD.actors.filter(({ role }) => role !== "executor") })).toEqual({ actors: "fail" });
  expect(clusterWith({ actors: HEARD.actors.map((one) => ({ ...one, leads: false })) })).toEqual({ actors: "fail" });
  expect(clusterWith({ answeredMs: undefined })).toEqual({ actors: "warn" });
  expect(clusterWith({ actors: [...HEARD.actors, actor("gateway", { health: ["late heartbeat"] })] })).toEqual({
    actors: "warn",
  });
});

test("turns of a scheduler that are long are warned of, once its process is older than the minute they are of", () => {
  const turns = (more: Partial<HeardCluster["turns"][number]>): HeardCluster["turns"] => [
    {
      ...{ actor: "b", role: "batcher", host: "a", p50Us: 90, p999Us: 800, maxUs: 2_900, gcShare: 0.1 },
      isSettled: true,
    },
    {
      ...{ actor: "c", role: "ranker", host: "a", p50Us: 90, p999Us: 800, maxUs: 2_000, gcShare: 0.1 },
      isSettled: true,
      ...more,
    },
  ];
  expect(clusterWith({ turns: turns({}) })).toEqual({});
  expect(clusterWith({ turns: turns({ maxUs: 3_100 }) })).toEqual({ "event loop": "warn" });
  expect(clusterWith({ turns: turns({ p999Us: 1_100 }) })).toEqual({ "event loop": "warn" });
  expect(clusterWith({ turns: turns({ maxUs: 90_000, isSettled: false }) })).toEqual({});
  const found = judgeCluster({ ...HEARD, turns: turns({ p999Us: 1_100 }) }).find(({ check }) => check === "event loop");
  expect(found?.found).toBe(
    "turns in the last minute, ranker c: p50 0.1 ms, p99.9 1.1 ms, longest 2.0 ms, 10 % garbage collection",
  );
});

test("credentials that may not see the cluster are no failure, and what they can't see is not judged", () => {
  expect(clusterWith({ denied: ["tutti.v1.main.beat.*"], models: "denied", actors: [] })).toEqual({ rights: "warn" });
});

test("releases that meet in a cluster are named, with the actors of each", () => {
  const old = actor("ingress", { release: "0.0.9", name: "ingress2" });
  const actors = [...HEARD.actors, old, actor("gateway", { release: undefined })];
  expect(clusterWith({ actors })).toEqual({ releases: "warn" });
  expect(judgeCluster({ ...HEARD, actors }).find(({ check }) => check === "releases")?.found).toBe(
    `this command is of ${TUTTI_RELEASE}, and the actors are of ${TUTTI_RELEASE} (ingress ingress1, batcher batcher1, ` +
      "ranker ranker1 and 2 more) and of 0.0.9 (ingress ingress2) and of older (gateway gateway1)",
  );
});

test("clocks of hosts may differ by little; on one host a late heartbeat is no other clock", () => {
  const skewed = (aheadUs: number, host: string): Record<string, State> =>
    clusterWith({ actors: [...HEARD.actors, actor("gateway", { host, aheadUs })] });
  expect([skewed(1_500, "b"), skewed(9_000, "a")]).toEqual([{}, {}]);
  expect([skewed(9_000, "b"), skewed(-9_000, "b")]).toEqual([{ clocks: "warn" }, { clocks: "warn" }]);
  expect(skewed(80_000, "b")).toEqual({ clocks: "fail" });
});

test("a cluster that is named and not there ends with the code of that, one that is merely found here with that of a failure", async () => {
  const nowhere = {
    servers: ["nats://joe:s3cret@127.0.0.1:1"],
    credentials: undefined,
    tlsCa: undefined,
    cluster: "main",
    running: undefined,
  };
  const [named] = await lookAtCluster(nowhere, true, 10);
  expect([named?.state, exitCodeOf([named!])]).toEqual(["fail", EXIT.unavailable]);
  expect(named?.found).toMatch(/^no NATS server answers at nats:\/\/\*\*\*@127\.0\.0\.1:1: /);
  expectExplained([named!]);
  const [found] = await lookAtCluster(nowhere, false, 10);
  expect(exitCodeOf([found!])).toBe(EXIT.failed);
});

test("warnings and notes end with 0, one failure with 1", () => {
  const finding = (state: State): Finding => ({ check: "x", state, found: "y" });
  expect(exitCodeOf([finding("ok"), finding("note"), finding("warn")])).toBe(EXIT.ok);
  expect(exitCodeOf([finding("warn"), finding("fail")])).toBe(EXIT.failed);
});

afterEach(() => vi.unstubAllEnvs());
/** A stream that looks like a terminal to code that asks whether to use colours. */
function terminal(): NodeJS.WritableStream {
  const { getColorDepth, hasColors } = WriteStream.prototype;
  return Object.assign(new PassThrough(), {
    isTTY: true,
    getColorDepth,
    hasColors,
  });
}

test("colours are for terminals, and for nobody who said NO_COLOR", () => {
  const findings: Finding[] = [{ check: "Node", state: "fail", found: "18", why: "w ".repeat(90), next: "go on" }];
  for (const name of ["NO_COLOR", "FORCE_COLOR", "NODE_DISABLE_COLORS", "CI"]) vi.stubEnv(name, undefined);
  vi.stubEnv("TERM", "xterm-256color");
  expect(renderFindings(findings, terminal())).toContain("\u001b[31mFAIL");
  const piped = renderFindings(findings, new PassThrough());
  expect(piped).toContain("FAIL  Node  18\n");
  expect(piped).not.toContain("\u001b");
  expect(Math.max(...piped.split("\n").map((line) => line.length))).toBeLessThanOrEqual(120);
  vi.stubEnv("NO_COLOR", "1");
  expect(renderFindings(findings, terminal())).not.toContain("\u001b");
});

test("a context of the nats command line is read, and one that isn't there names the nearest", async () => {
  const home = mkdtempSync(join(tmpdir(), "tutti-context-"));
  try {
    mkdirSync(join(home, "nats/context"), { recursive: true });
    const write = (name: string, text: string): void => writeFileSync(join(home, "nats/context", `${name}.json`), text);
    write("prod", JSON.stringify({ url: "nats://h:4222", creds: "/c/admin.creds", ca: "/c/ca.pem", nkey: "" }));
    write("bad", "{");
    write("list", "[]");
    const env = { XDG_CONFIG_HOME: home };
    expect(await readContext("prod", env)).toEqual({
      nats: "nats://h:4222",
      creds: "/c/admin.creds",
      tlsCa: "/c/ca.pem",
    });
    await expect(readContext("prdo", env)).rejects.toThrow('did you mean "prod"?');
    await expect(readContext("../prod", env)).rejects.toThrow("no such context");
    for (const name of ["bad", "list"]) await expect(readContext(name, env)).rejects.toThrow(`--context ${name}: `);
  } finally {
    rmSync(home, { recursive: true });
  }
});
