/** Whether a name is a model's or a pipeline's, for commands that take both. */
import { ModelRegistry, askedNames } from "@tutti/client/registries";
import type { Bus } from "@tutti/ports/bus";
import type { Store } from "@tutti/ports/store";
import { noModelError } from "@tutti/protocol";
import { ClusterView, latestOf } from "./cluster-view.ts";

/** @throws {TuttiError} NOT_FOUND: neither a model nor a pipeline has the name; a similar one is suggested */
export async function checkName(
  name: string,
  options: { readonly bus: Bus; readonly store: Store; readonly cluster: string; readonly waitMs: number },
): Promise<void> {
  const { bus, store, cluster, waitMs } = options;
  const view = new ClusterView();
  const listening = view.listen(bus, cluster);
  try {
    const models = askedNames(await new ModelRegistry(store).list());
    if (models.includes(name)) return;
    // Only the reports of ingresses say which pipelines there are.
    await view.until(() => view.hasReports(1), waitMs);
    const pipelines = view.actors().flatMap((actor) => latestOf(actor)?.pipelines?.map((one) => one.name) ?? []);
    if (!pipelines.includes(name)) throw noModelError(name, [...models, ...pipelines]);
  } finally {
    listening.stop();
  }
}
