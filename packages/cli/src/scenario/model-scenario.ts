/** The scenario of one model, for questions without a file. */
import { readFile } from "node:fs/promises";
import { CommandError, note, usageError } from "@tutti/admin";
import { type ClusterOptions, withCluster } from "@tutti/admin/cluster";
import { readLatencyPoints } from "@tutti/admin/models";
import { BATCH_SIZE_MAX, type ProfilePoints } from "@tutti/protocol";
import { LocatedYaml, ScenarioFile } from "@tutti/sim-report/scenarios";
import { sloOption } from "../present/slo-option.ts";
import { ClusterWatch } from "./cluster-watch.ts";
import { type SeenCluster, liveScenario, scenarioText } from "./live-scenario.ts";

export interface ModelFlags extends ClusterOptions {
  readonly model?: string;
  readonly slo?: string;
  /** A file of latencies; absent: those that the cluster has learned. */
  readonly profile?: string;
}

/** With Poisson arrivals and without a rate. @throws {CommandError} wrong usage, or the model has no profile */
export async function modelScenario(name: string, flags: ModelFlags): Promise<ScenarioFile> {
  const { profile } = flags;
  const slo = flags.slo === undefined ? undefined : sloOption(flags.slo);
  if (profile !== undefined && slo === undefined) throw usageError("--profile has no SLO: give one with --slo");
  const seen = profile === undefined ? await servedModel(name, flags) : await givenModel(name, profile);
  const models = seen.models.map((model) => ({ ...model, spec: { ...model.spec, slo: slo ?? model.spec.slo } }));
  const made = liveScenario({ ...seen, models }, { seconds: 0, models: [], burstiness: undefined });
  return ScenarioFile.of(scenarioText(made, seen, "--model"), `--model ${name}`);
}

function servedModel(name: string, flags: ModelFlags): Promise<SeenCluster> {
  return withCluster({ ...flags, name: "tutti-goodput" }, async (nats, cluster) => {
    const watch = new ClusterWatch(nats, cluster);
    try {
      const seen = await watch.seen([name]);
      const model = seen.models.find((one) => one.name === name);
      if (model === undefined)
        throw new CommandError(`"${name}" has no profile here: \`tutti models\` lists those that have one`);
      note(`tutti: ${name} as the cluster ${cluster.cluster} has learned it, with Poisson arrivals`);
      // The profile is that of the slowest type that serves the model.
      return { ...seen, models: [model], accelerators: seen.accelerators.map(() => "") };
    } finally {
      watch.stop();
    }
  });
}

async function givenModel(name: string, path: string): Promise<SeenCluster> {
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw usageError(`--profile ${path} can't be read (${error.code})`);
  });
  const points: ProfilePoints = readLatencyPoints(new LocatedYaml(text, path).value, BATCH_SIZE_MAX, path);
  const spec = { slo: 0 as never, batchSizeMax: points.at(-1)!.batchSize };
  return {
    ...{ cluster: path, at: "", accelerators: [], subClusters: 1, delays: undefined, turnsUs: [] },
    models: [{ name, spec, status: { profiles: [points] }, times: undefined }],
  };
}
