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
import { jaegerFlags, startJaeger } from "./jaeger.ts";

let folder = "";
let stand = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tutti-jaeger-"));
  stand = join(folder, "jaeger");
  const script = `
    require("node:fs").writeFileSync(${JSON.stringify(join(folder, "pid"))}, String(process.pid));
    const flag = process.argv.find((text) => text.startsWith("--query.http-server.host-port="));
    console.log("starts");
    require("node:http").createServer((_, answer) => answer.end("{}")).listen(Number(flag.split(":").at(-1)), "127.0.0.1");`;
  writeFileSync(join(folder, "jaeger.cjs"), script);
  writeFileSync(stand, `#!/bin/sh\nexec '${process.execPath}' '${join(folder, "jaeger.cjs")}' "$@"\n`);
  chmodSync(stand, 0o755);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));
const pidOf = (): number => Number(readFileSync(join(folder, "pid"), "utf8"));
const gone = (pid: number): Promise<void> => vi.waitFor(() => expect(isAlive(pid)).toBe(false), { timeout: 20_000 });

test("it is there once it answers, writes to its log, and is gone when it was stopped, which is no death", async () => {
  const lines: string[] = [];
  const jaeger = await startJaeger(stand, { write: (line) => void lines.push(line) });
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
  const jaeger = await startJaeger(stand, { write: () => undefined });
  process.kill(pidOf(), "SIGKILL");
  expect(await jaeger.died).toContain("SIGKILL");
});

test("it doesn't outlive a `tutti up` that is killed", async () => {
  const module = JSON.stringify(new URL("./jaeger.ts", import.meta.url).href);
  const script = `import { startJaeger } from ${module};
    await startJaeger(${JSON.stringify(stand)}, { write: () => undefined });
    process.kill(process.pid, "SIGKILL");`;
  await new Promise((ended) => execFile(process.execPath, ["--input-type=module", "-e", script], ended));
  await gone(pidOf());
});

test("all that it listens on is on loopback", () => {
  const hosts = jaegerFlags(16_686, 4_318).filter((flag) => flag.includes("host-port"));
  expect(hosts).toHaveLength(7); // all that the version listens on
  expect(hosts.every((flag) => /=127\.0\.0\.1:\d+$/.test(flag))).toBe(true);
});

test("one that can't be started says why, with its last words", async () => {
  const lines: string[] = [];
  const log = { write: (line: string) => void lines.push(line) };
  await expect(startJaeger("/nowhere/jaeger", log)).rejects.toThrow(/\/nowhere\/jaeger.*ENOENT/);
  await expect(startJaeger(process.execPath, log)).rejects.toThrow(/does not start: it ended with 9: \S/);
  expect(lines.join("\n")).toContain("--query.http-server.host-port");
});
