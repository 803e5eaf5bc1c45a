/** One load, served and simulated. No parameter is fitted. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Compared, compare } from "./comparison.ts";
import type { Delays } from "./live-figures.ts";
import { type LiveOptions, serve } from "./live-run.ts";
import { replay } from "./simulated-run.ts";
import type { Workload } from "./workloads.ts";

export interface Agreement {
  readonly workload: string;
  readonly offeredRps: number;
  readonly compared: readonly Compared[];
  /** Delays that live measured, which the simulation was given, in µs. */
  readonly delays: Delays;
  /** p99 of the load generator's lag. */
  readonly sendLagMs: number;
}

export async function measureAgreement(workload: Workload, options: LiveOptions): Promise<Agreement> {
  const folder = mkdtempSync(join(tmpdir(), "tutti-agreement-"));
  try {
    const run = await serve(folder, workload, options);
    const { live, delays, window, sendLagMs } = run;
    return {
      workload: workload.name,
      offeredRps: window.offered / ((window.until - window.from) / 1e6),
      compared: compare(live, await replay(workload, run)),
      ...{ delays, sendLagMs },
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
