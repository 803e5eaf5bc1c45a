import { ModelRegistry } from "@tutti/client";
import type { ClusterOptions } from "../cluster.ts";
import { withCluster } from "../connection.ts";
import { CommandError } from "../failure.ts";

/** `tutti unload <model>`: batches that run finish, what waits is refused. */
export function unload(name: string, options: ClusterOptions & { readonly json?: boolean }): Promise<void> {
  return withCluster({ ...options, name: "tutti-unload" }, async (nats) => {
    const removed = await new ModelRegistry(nats.store).remove(name);
    if (!removed) throw new CommandError(`no model "${name}" is loaded: \`tutti models\` lists what is`);
    process.stdout.write(options.json === true ? `${JSON.stringify({ unloaded: name })}\n` : `${name} is unloaded\n`);
  });
}
