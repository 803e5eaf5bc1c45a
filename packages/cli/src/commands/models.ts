import { ModelRegistry } from "@tutti/client";
import type { ClusterOptions } from "../cluster.ts";
import { withCluster } from "../connection.ts";
import { CommandError } from "../failure.ts";
import { familiesAsJson, renderFamilies } from "../models/family-table.ts";
import { modelsAsJson, renderModels } from "../models/model-table.ts";

/**
 * `tutti models`: lists the models that the cluster should serve, and their states. `--release` first lifts a
 * quarantine. `--families` lists the parts that families share.
 */
export function models(
  options: ClusterOptions & { readonly json?: boolean; readonly release?: string; readonly families?: boolean },
): Promise<void> {
  return withCluster({ ...options, name: "tutti-models" }, async (nats) => {
    const registry = new ModelRegistry(nats.store);
    if (options.release !== undefined && !(await registry.release(options.release)))
      throw new CommandError(`"${options.release}" is not quarantined`);
    const listed = await registry.list();
    if (options.families === true) {
      const none = "no families are served: `tutti load` makes them of models that begin alike";
      const text = options.json === true ? JSON.stringify(familiesAsJson(listed)) : renderFamilies(listed) || none;
      process.stdout.write(`${text}\n`);
    } else if (options.json === true) process.stdout.write(`${JSON.stringify(modelsAsJson(listed))}\n`);
    else
      process.stdout.write(
        `${renderModels(listed) || "no models are loaded: `tutti load path/to/model.onnx --slo 30ms`"}\n`,
      );
  });
}
