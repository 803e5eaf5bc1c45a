/** Latencies of models on halves of accelerators, for `tutti up --divide`. */
import type { DesiredModel } from "@tutti/client/registries";
import { latencyOnPart } from "@tutti/host/parts";
import type { DivisibleModels } from "@tutti/host/up";
import { WHOLE } from "@tutti/planning";
import { LatencyTable } from "@tutti/profile";
import { usageError } from "@tutti/admin";
import { readFractionsInput } from "./fractions-input.ts";

/** @throws {CommandError} naming file, line and column of every error */
export async function readOnHalves(path: string): Promise<DivisibleModels> {
  const { names, models, sizes, interference } = await readFractionsInput(path);
  if (!sizes.includes(WHOLE / 2))
    throw usageError(`--divide ${path}: its sizes are ${sizes.join(", ")} %, and halves need latencies on 50 %`);
  return { models: new Map(models.map((model) => [names[model.id]!, model])), interference };
}

/** Emulated models, as emulated executors run them: without interference. */
export function emulatedOnHalves(models: readonly DesiredModel[]): DivisibleModels {
  const known = models.flatMap(({ name, batchSizeMax, profile }) => {
    const [points] = profile ?? [];
    if (points === undefined || profile!.length > 1) return [];
    const table = LatencyTable.fromPoints(points, { batchSizeMax });
    const latency = (batchSize: number, size: number): number => latencyOnPart(table, batchSize, size) / 1_000;
    return [[name, { batchMax: table.batchSizeMax, latency, cacheUse: 0, bandwidthUse: 0 }] as const];
  });
  return { models: new Map(known), interference: undefined };
}
