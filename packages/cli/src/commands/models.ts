import { ModelRegistry } from "@tutti/client/registries";
import { CommandError, print } from "@tutti/admin";
import { type ClusterOptions, withCluster } from "@tutti/admin/cluster";
import { familiesAsJson, renderFamilies, modelsAsJson, renderModels } from "@tutti/admin/model-tables";

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
      print(text);
    } else if (options.json === true) print(JSON.stringify(modelsAsJson(listed)));
    else print(renderModels(listed) || "no models are loaded: `tutti load path/to/model.onnx --slo 30ms`");
  });
}
