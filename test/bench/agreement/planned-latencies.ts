import { join } from "node:path";
import { connectNats, readCredentials } from "@tutti/bus-nats";
import { ModelRegistry } from "@tutti/client/registries";
import { LatencyTable } from "@tutti/profile";
import type { ProfilePoints } from "@tutti/protocol";
import { micros } from "@tutti/units";

const ROOT = join(import.meta.dirname, "../../..");
const EVERY_MS = 1_000;

/**
 * Samples once a second the l(b) that batchers plan with, a high quantile of live runs. @returns the mean of the
 * samples
 */
export async function watchLatencies(
  url: string,
  model: string,
): Promise<{ stop(from: number): Promise<LatencyTable> }> {
  const runs = process.env["TUTTI_RUN_DIR"] ?? join(ROOT, ".tutti/run");
  const credentials = readCredentials(join(runs, new URL(url).port, "creds/admin.nk"));
  const nats = await connectNats({ servers: url, name: "agreement", credentials });
  const registry = new ModelRegistry(nats.store);
  const seen: { readonly at: number; readonly planned: ProfilePoints }[] = [];
  const look = async (): Promise<void> => {
    const status = (await registry.list()).find(({ spec }) => spec.name === model)?.status;
    const planned = status?.profiles[0];
    if (planned !== undefined) seen.push({ at: performance.now(), planned });
  };
  await look();
  let looking = Promise.resolve();
  const timer = setInterval(() => {
    looking = looking.then(look);
  }, EVERY_MS);
  return {
    /** @param from - of `performance.now()`: earlier samples don't count */
    async stop(from) {
      clearInterval(timer);
      await looking;
      await nats.close();
      const counted = seen.filter(({ at }) => at >= from);
      const used = counted.length > 0 ? counted : seen.slice(-1);
      return meanOf(used.map(({ planned }) => planned));
    },
  };
}

function meanOf(tables: readonly ProfilePoints[]): LatencyTable {
  const points = (tables[0] ?? []).map(({ batchSize }) => {
    const total = tables.reduce(
      (sum, table) => sum + (table.find((point) => point.batchSize === batchSize)?.latency ?? 0),
      0,
    );
    return { batchSize, latency: micros(Math.round(total / tables.length)) };
  });
  return LatencyTable.fromPoints(points);
}
