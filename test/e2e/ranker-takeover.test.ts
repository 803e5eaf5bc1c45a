/**
 * Rankers of a real cluster die, are stopped and hang under open-loop load. Another one grants, and every request gets
 * its one answer (docs/architecture.md, 4).
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "@tutti/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { RankerTap } from "../bench/takeover/ranker-tap.ts";
import { SteadyLoad } from "./steady-load.ts";
import { TuttiUp } from "./tutti-up.ts";

const [KILLS, TERMS] = [5, 3];
const RATE = 100;
/**
 * Bounds, ten times the target of 12 ms after SIGKILL; a standby that takes over is cold after SIGTERM too. `npm run
 * bench:takeover` measures the times.
 */
const [KILLED_MS, TERMINATED_MS, HUNG_MS] = [120, 120, 2_000];

let folder: string;
let up: TuttiUp;
let tap: RankerTap;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-takeover-"));
  const profiles = join(folder, "profiles.yaml");
  await writeFile(profiles, "models: [{ name: resnet50, sloMs: 2000, batchMax: 32, alphaMs: 1.053, betaMs: 5.072 }]\n");
  process.env["TUTTI_LINKS"] = "off"; // grants are heard on NATS
  up = await TuttiUp.start(["--emulate", profiles, "--gpus", "4", "--rankers", "3", "--patience", "0"]);
  tap = await RankerTap.open(up);
});
afterAll(async () => {
  await tap?.close();
  await up?.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Ends the leader. @returns how long nothing was granted */
async function strike(signal: NodeJS.Signals): Promise<{ pid: number; tookMs: number }> {
  // The ranker ended before is back: its start would take processor time from the standbys.
  const pid = await tap.leader(2);
  return { pid, tookMs: (await tap.strike(pid, signal)).afterMs };
}
const median = (times: readonly number[]): number => times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)]!;

test("a ranker that is killed, stopped or hangs costs nobody's answer, and another grants within moments (T1, T5, T9)", async () => {
  const client = await connect({ servers: up.url, app: "takeover" });
  const load = new SteadyLoad(client, { model: "resnet50", perSecond: RATE, sloMs: 2_000 });
  load.start();
  try {
    const killed: number[] = [];
    for (let i = 0; i < KILLS; i++) killed.push((await strike("SIGKILL")).tookMs);
    const terminated: number[] = [];
    for (let i = 0; i < TERMS; i++) terminated.push((await strike("SIGTERM")).tookMs);
    const hung = await strike("SIGSTOP");
    const { epoch } = tap;
    process.kill(hung.pid, "SIGCONT");
    // It is a standby now, and leaves the leader alone.
    await tap.until(() => tap.beatsOf(hung.pid) > 5, 60_000);
    expect(tap.epoch).toBe(epoch);
    const settled = await load.stop();
    expect(load.summary()).toBe(JSON.stringify({ ok: settled.length }));
    expect(settled.length).toBeGreaterThan(RATE);
    // A single time may include a wait for a processor; the median shows the mechanism's own time.
    expect(median(killed)).toBeLessThan(KILLED_MS);
    expect(median(terminated)).toBeLessThan(TERMINATED_MS);
    expect(hung.tookMs).toBeLessThan(HUNG_MS);
  } finally {
    await load.stop();
    await client.close();
  }
});
