import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readTrace, readTraceFile } from "./trace-file.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-trace-"));
});
afterAll(() => rm(folder, { recursive: true }));

const HEADER = `{"format":"tutti-trace","version":1,"startedAt":"2026-01-01T00:00:00.000Z","cluster":"main","payloads":false}`;

async function file(...lines: string[]): Promise<string> {
  const path = join(folder, "trace");
  await writeFile(path, lines.join("\n"));
  return path;
}

test("a recording gives its requests with their own SLOs, and counts what was missed", async () => {
  const path = await file(
    HEADER,
    `{"t":0,"model":"a","app":"x","bytes":4}`,
    `{"t":1500,"model":"b","app":"y","sloUs":25000,"bytes":4,"payload":"AAAA"}`,
    `{"t":1600,"missed":7}`,
    `{"t":1700,"awayUs":2000}`,
    "",
  );
  expect(await readTraceFile(path)).toMatchObject({
    header: { version: 1, cluster: "main" },
    entries: [
      { at: 0, model: "a", app: "x", slo: undefined },
      { at: 1500, model: "b", app: "y", slo: 25_000 },
    ],
    missed: 7,
    away: 2000,
  });
});

test("a table gives the same, in order of time and counted from its first request", async () => {
  const path = await file("t_ms,model,app,slo_ms", "12.5,b,y,25", "10,a,,", `11,"a",x,`);
  expect(await readTrace(path)).toEqual([
    { at: 0, model: "a", app: "", slo: undefined },
    { at: 1000, model: "a", app: "x", slo: undefined },
    { at: 2500, model: "b", app: "y", slo: 25_000 },
  ]);
  expect(await readTrace(await file("model,t_ms\r", "a,1\r", ""))).toEqual([
    { at: 0, model: "a", app: "", slo: undefined },
  ]);
});

test("malformed lines are named by number, and a file that was cut off says so", async () => {
  const good = `{"t":0,"model":"a","app":"x","bytes":4}`;
  const path = await file(HEADER, good, `{"t":-1,"model":"a"}`, good, `{"t":2,"model":7}`, `[]`, `{"t":5,"mod`);
  await expect(readTrace(path)).rejects.toThrow(
    /line 3: "t" is -1.*line 5: "model" is 7.*line 6: not a JSON object.*line 7: not JSON; the recording was cut off/,
  );
  await expect(readTrace(await file("t_ms,model", "1,a", "x,a", "2"))).rejects.toThrow(
    /line 3: t_ms is "x", not a number.*line 4: 1 cells instead of 2/,
  );
});

test("what is no trace is refused with a word on what one looks like", async () => {
  await expect(readTrace(join(folder, "absent"))).rejects.toThrow(/absent can't be read: there is no such file/);
  await expect(readTrace(folder)).rejects.toThrow(/can't be read: EISDIR/);
  await expect(readTrace(await file("hello"))).rejects.toThrow(/line 1: neither a recording nor a table/);
  await expect(readTrace(await file(`{"a":1}`))).rejects.toThrow(/line 1: not the beginning of a recording/);
  await expect(readTrace(await file(HEADER.replace('"version":1', '"version":2')))).rejects.toThrow(
    /this program reads version 1/,
  );
  await expect(readTrace(await file(HEADER))).rejects.toThrow(/holds no requests/);
});

test("two hundred thousand requests are read in a fraction of a second, whatever the length of the file", async () => {
  const lines = Array.from({ length: 200_000 }, (_, i) => `{"t":${i * 10},"model":"m${i % 3}","app":"x","bytes":4}`);
  const path = await file([HEADER, ...lines].join("\n"), "");
  const before = process.cpuUsage();
  const entries = await readTrace(path);
  const { user, system } = process.cpuUsage(before);
  expect(entries).toHaveLength(200_000);
  expect(entries.at(-1)).toEqual({ at: 1_999_990, model: "m1", app: "x", slo: undefined });
  // Reading takes 0.2 s; the limit has a margin of more than ten.
  expect((user + system) / 1e6).toBeLessThan(4);
});
