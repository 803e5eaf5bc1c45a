import { ModelRegistry, RouteRegistry, absentModelError, variantsOf } from "@tutti/client/registries";
import { CommandError } from "@tutti/admin";
import { type ClusterOptions, withCluster } from "@tutti/admin/cluster";

/**
 * `tutti unload <model>`: removes a model with all its versions, or one of them (`mlp/2`). Running batches finish, and
 * queued requests are refused.
 */
export function unload(name: string, options: ClusterOptions & { readonly json?: boolean }): Promise<void> {
  return withCluster({ ...options, name: "tutti-unload" }, async (nats) => {
    const registry = new ModelRegistry(nats.store);
    const removed = await new RouteRegistry(nats.store).unload(name);
    const family = removed
      ? undefined
      : variantsOf(await registry.list()).find((view) => view.name === name)?.variant?.family;
    if (family !== undefined)
      throw new CommandError(`${name} is served by the family ${family}: unload that, and load the others again`);
    if (!removed) throw await absentModelError(registry, name);
    process.stdout.write(options.json === true ? `${JSON.stringify({ unloaded: name })}\n` : `${name} is unloaded\n`);
  });
}
