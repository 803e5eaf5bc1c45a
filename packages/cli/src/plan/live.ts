import { BUCKET, PLACEMENT_KEY, type PlanReport, REPORT_KEY, isPlacement, isPlanReport } from "@tutti/protocol";
import { type Store, isStoreFailure } from "@tutti/ports/store";
import { fromJson } from "@tutti/wire";
import { CommandError, EXIT, print } from "@tutti/admin";
import { type ClusterOptions, withCluster } from "@tutti/admin/cluster";
import { livePlan } from "@tutti/admin/operators";
import { renderLivePlan } from "./live-text.ts";

export interface LiveOptions extends ClusterOptions {
  readonly json?: boolean;
}

/** `tutti plan --live`: the plan that a running cluster follows, the next one, and their difference. */
export function planLive(options: LiveOptions): Promise<void> {
  return withCluster({ ...options, name: "tutti-plan" }, async ({ store }) => {
    const [placement, report] = await Promise.all([read(store, PLACEMENT_KEY), readReport(store)]);
    if (placement !== undefined && !isPlacement(placement))
      throw new CommandError(
        `the plan in ${BUCKET.plan}/${PLACEMENT_KEY} can't be read; the planner will make it anew`,
      );
    const plan = livePlan(placement, report, Date.now() * 1_000);
    print(options.json === true ? JSON.stringify(plan) : renderLivePlan(plan));
    if (!plan.feasible) process.exitCode = EXIT.failed;
  });
}

/** The planner's last report; undefined: there is none, or it can't be read. */
export async function readReport(store: Store): Promise<PlanReport | undefined> {
  const report = await read(store, REPORT_KEY);
  return isPlanReport(report) ? report : undefined;
}

function read(store: Store, key: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    store.get(BUCKET.plan, key, (result) => {
      if (isStoreFailure(result)) return reject(new CommandError(`reading ${BUCKET.plan}/${key}: ${result.failure}`));
      if (result === "absent") return resolve(undefined);
      try {
        resolve(fromJson(result.value));
      } catch {
        resolve(null);
      }
    });
  });
}
