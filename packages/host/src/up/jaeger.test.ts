/**
 * Tests of Jaeger's start, supervision and end, with a stand-in that answers like it. The real one is in
 * test/e2e/traces-and-doctor.test.ts.
 */
import { execFile } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { isAlive } from "@tutti/admin/cluster";
import { jaegerFlags, jaegerPorts, startJaeger } from "./jaeger.ts";
import { provideJaeger } from "./jaeger-beside.ts";

let folder = "";
let stand = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tutti-jaeger-"));
  stand = join(folder, "jaeger");
  const script = `
    require("node:fs").writeFileSync(${JSON.stringify(join(folder, "pid"))}, String(process.pid));
    const flag = process.argv.find((text) => text.startsWith("--query.http-server.host-port="));
    console.log("starts");
    require("node:http").createServer((_, answer) => answer.end(process.env.PAGE ?? "{}")).listen(Number(flag.split(":").at(-1)), "127.0.0.1");`;
  writeFileSync(join(folder, "jaeger.cjs"), script);
  writeFileSync(stand, `#!/bin/sh\nexec '${process.execPath}' '${join(folder, "jaeger.cjs")}' "$@"\n`);
  chmodSync(stand, 0o755);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));
const pidOf = (): number => Number(readFileSync(join(folder, "pid"), "utf8"));
const gone = (pid: number): Promise<void> => vi.waitFor(() => expect(isAlive(pid)).toBe(false), { timeout: 20_000 });

test("it is there once it answers, writes to its log, and is gone when it was stopped, which is no death", async () => {
  const lines: string[] = [];
  const jaeger = await startJaeger(stand, { write: (line) => void lines.push(line) }, await jaegerPorts());
  const died = vi.fn();
  void jaeger.died.then(died);
  expect((await fetch(`${jaeger.url}/api/services`)).status).toBe(200);
  expect([jaeger.url, jaeger.otlp].every((url) => /^http:\/\/127\.0\.0\.1:\d+$/.test(url))).toBe(true);
  expect(lines).toEqual(["starts"]);
  await jaeger.stop();
  await gone(pidOf());
  await jaeger.stop(); // stopping a second time has no effect
  expect(died).not.toHaveBeenCalled();
});

test("one that dies by itself says how", async () => {
  const jaeger = await startJaeger(stand, { write: () => undefined }, await jaegerPorts());
  process.kill(pidOf(), "SIGKILL");
  expect(await jaeger.died).toContain("SIGKILL");
});

test("it doesn't outlive a `tutti up` that is killed", async () => {
  const module = JSON.stringify(new URL("./jaeger.ts", import.meta.url).href);
  const script = `import { jaegerPorts, startJaeger } from ${module};
    await startJaeger(${JSON.stringify(stand)}, { write: () => undefined }, await jaegerPorts());
    process.kill(process.pid, "SIGKILL");`;
  await new Promise((ended) => execFile(process.execPath, ["--input-type=module", "-e", script], ended));
  await gone(pidOf());
});

test("all that it listens on is on loopback", () => {
  const hosts = jaegerFlags({ page: 16_686, otlp: 4_318 }).filter((flag) => flag.includes("host-port"));
  expect(hosts).toHaveLength(7); // all that the version listens on
  expect(hosts.every((flag) => /=127\.0\.0\.1:\d+$/.test(flag))).toBe(true);
});

test("one that can't be started says why, with its last words", async () => {
  const lines: string[] = [];
  const log = { write: (line: string) => void lines.push(line) };
  const ports = await jaegerPorts();
  await expect(startJaeger("/nowhere/jaeger", log, ports)).rejects.toThrow(/\/nowhere\/jaeger.*ENOENT/);
  await expect(startJaeger(process.execPath, log, ports)).rejects.toThrow(/does not start: it ended with 9: \S/);
  expect(lines.join("\n")).toContain("--query.http-server.host-port");
});

const coming = (executable: Promise<string | undefined>) => ({ executable, forget: () => undefined });

/** Events that `provideJaeger` says, and the folder that it logs into. */
function listening() {
  const said: [event: string, text: string][] = [];
  const directory = { openLog: () => ({ write: () => undefined, close: () => undefined }) };
  return {
    said,
    directory: directory as never,
    announcer: { say: (event: string, text: string) => void said.push([event, text]) },
  };
}

test("one that is still on its way has its addresses at once, runs there when it comes, and ends with the cluster", async () => {
  const { said, directory, announcer } = listening();
  const { promise, resolve } = Promise.withResolvers<string>();
  const beside = (await provideJaeger(directory, announcer, coming(promise)))!;
  expect(said.map(([event]) => event)).toEqual(["jaeger-comes"]);
  await expect(fetch(beside.url)).rejects.toThrow();
  resolve(stand);
  await vi.waitFor(() => expect(said[1]?.[0]).toBe("jaeger"), { timeout: 20_000 });
  expect((await fetch(`${beside.url}/api/services`)).status).toBe(200);
  await beside.stop();
  await gone(pidOf());
  expect(said).toHaveLength(2);
});

test("of one whose bringing ends after the cluster nothing is said, and one that can't be had is missed without an end", async () => {
  const { said, directory, announcer } = listening();
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const beside = (await provideJaeger(directory, announcer, coming(promise)))!;
  await beside.stop();
  resolve(undefined);
  await promise; // what hears of it before us would have said that it is missing
  expect(said.map(([event]) => event)).toEqual(["jaeger-comes"]);
  await provideJaeger(directory, announcer, coming(Promise.resolve(undefined)));
  await vi.waitFor(() =>
    expect(said.map(([event]) => event)).toEqual(["jaeger-comes", "jaeger-comes", "jaeger-missing"]),
  );
});

test("its own page is named where it has one, and else the console, whose traces are the same", async () => {
  const textWith = async (page: string | undefined): Promise<string> => {
    const { said, directory, announcer } = listening();
    vi.stubEnv("TUTTI_JAEGER", stand);
    vi.stubEnv("PAGE", page);
    const beside = (await provideJaeger(directory, announcer, undefined))!;
    vi.unstubAllEnvs();
    await beside.stop();
    return said[0]![1].replace(/127\.0\.0\.1:\d+/, "HOST");
  };
  expect(await textWith('<div id="jaeger-ui-root"></div>')).toBe("Jaeger: http://HOST");
  expect(await textWith("<h1>This is a placeholder</h1>")).toMatch(/^Jaeger: http:\/\/HOST\/api\/traces .*console/);
});
