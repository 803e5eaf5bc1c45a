/** A rolling upgrade under load: every process in turn from one release to the other, and back. */
import { RouteRegistry, ModelRegistry } from "@tutti/client/registries";
import { type Route, stateOf } from "@tutti/protocol";
import { type LoadResult, type ReleaseFolder, UpgradingCluster } from "./upgrading-cluster.ts";

/** The order that docs/upgrades.md gives: executors first, one at a time, then nodes. */
const ORDER = ["executor-0", "executor-1", "node-0", "node-1"];

export interface UpgradeReport {
  /** Outcomes of the requests, by the release of the client. */
  readonly loads: Readonly<Record<"before" | "after", LoadResult>>;
  /** Releases that were heard in the middle of the upgrade. */
  readonly releases: readonly string[];
  /** The models' numbers and states, and their route's shares, before and after. */
  readonly stored: readonly [string, string];
}

/** @param onStep - called with each step, for people */
export async function rollingUpgrade(
  before: ReleaseFolder,
  after: ReleaseFolder,
  onStep: (text: string) => void = () => undefined,
): Promise<UpgradeReport> {
  const cluster = await UpgradingCluster.start();
  try {
    onStep("starts the release before");
    for (const name of ORDER) await cluster.replace(name, before);
    await cluster.publish(before, 2);
    const stored = await storedIn(cluster);
    const [endOld, endNew] = [await cluster.load(before), await cluster.load(after)];
    let releases: readonly string[] = [];
    for (const release of [after, before]) {
      for (const [i, name] of ORDER.entries()) {
        onStep(`replaces ${name} by ${release === after ? "the one after" : "the one before"}`);
        await cluster.replace(name, release);
        if (release === after && i === 2) releases = await cluster.releases();
      }
    }
    const loads = { before: await endOld(), after: await endNew() };
    return { loads, releases, stored: [stored, await storedIn(cluster)] };
  } finally {
    await cluster.stop();
  }
}

async function storedIn(cluster: UpgradingCluster): Promise<string> {
  const nats = await cluster.connect();
  const models = await new ModelRegistry(nats.store).list();
  const route: Route | undefined = await new RouteRegistry(nats.store).get("echo");
  await nats.close();
  const shown = models.map(({ spec, status }) => `${spec.name} ${spec.number} ${status?.state}`);
  return [...shown, JSON.stringify(route === undefined ? undefined : stateOf(route).slices)].join(", ");
}
