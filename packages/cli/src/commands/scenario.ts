import { setTimeout as after } from "node:timers/promises";
import { print, secondsOption } from "@tutti/admin";
import { type ClusterOptions, withCluster } from "@tutti/admin/cluster";
import { readTrace } from "@tutti/sim-report/trace";
import { typedCommand } from "../present/output-file.ts";
import { ClusterWatch } from "../scenario/cluster-watch.ts";
import { type SeenLoad, liveScenario, scenarioText } from "../scenario/live-scenario.ts";

export interface ScenarioCommandOptions extends ClusterOptions {
  readonly seconds: string;
  readonly trace?: string;
  readonly json?: boolean;
}

/** Two reports of each ingress, which come every second, bound a time. */
const SECONDS_LEAST = 3;

/** `tutti scenario --live`: a scenario file of what a running cluster serves and is asked for. */
export async function scenario(options: ScenarioCommandOptions): Promise<void> {
  const { trace } = options;
  const listenMs = secondsOption("--seconds", options.seconds, { least: SECONDS_LEAST });
  const entries = trace === undefined ? undefined : await readTrace(trace);
  const asked = [...new Set(entries?.map(({ model }) => model))];
  return withCluster({ ...options, name: "tutti-scenario" }, async (nats, cluster) => {
    const watch = new ClusterWatch(nats, cluster);
    try {
      await after(listenMs);
      const models = watch.load.models();
      const seen = await watch.seen(trace === undefined ? models.map(({ name }) => name) : asked);
      const load: SeenLoad =
        trace === undefined
          ? { seconds: listenMs / 1_000, models, burstiness: watch.load.burstiness() }
          : { trace, models: asked };
      const made = liveScenario(seen, load);
      print(
        options.json === true
          ? JSON.stringify(made.document, plain)
          : scenarioText(made, seen, typedCommand()).trimEnd(),
      );
    } finally {
      watch.stop();
    }
  });
}

/** Tables of latencies are maps, so that YAML has their sizes as numbers. */
const plain = (_: string, value: unknown): unknown => (value instanceof Map ? Object.fromEntries(value) : value);
