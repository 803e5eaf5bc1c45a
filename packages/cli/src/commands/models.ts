import { ModelRegistry } from "@tutti/client";
import type { ClusterOptions } from "../cluster.ts";
import { withCluster } from "../connection.ts";
import { modelsAsJson, renderModels } from "../models/model-table.ts";

/** `tutti models`: what the cluster is asked to serve, and how far it is. */
export function models(options: ClusterOptions & { readonly json?: boolean }): Promise<void> {
  return withCluster({ ...options, name: "tutti-models" }, async (nats) => {
    const listed = await new ModelRegistry(nats.store).list();
    if (options.json === true) process.stdout.write(`${JSON.stringify(modelsAsJson(listed))}\n`);
    else
      process.stdout.write(
        `${renderModels(listed) || "no models are loaded: `tutti load path/to/model.onnx --slo 30ms`"}\n`,
      );
  });
}
