import {
  type ModelSpec,
  TuttiError,
  isModelSpec,
  noModelError,
  publicNameOf,
  splitModelName,
  variantView,
  versionName,
} from "@tutti/protocol";
import { type Store, isStoreFailure } from "@tutti/ports/store";
import type { ListedModel, ModelRegistry } from "./model-registry.ts";

/**
 * Finds the spec with this name: a model's, one of its versions', or a family variant's. Of two the newer one wins, as
 * in an ingress.
 */
export async function askedSpec(
  registry: Pick<ModelRegistry, "get" | "list">,
  name: string,
): Promise<ModelSpec | undefined> {
  const own = await registry.get(name);
  const variant = variantsOf(await registry.list()).findLast((view) => view.name === name);
  if (own === undefined && variant === undefined) return versionUnderOwnName(registry, name);
  if (own === undefined || own.family !== undefined || variant === undefined) return variant ?? own;
  return own.number > variant.number ? own : variant;
}

/** `mlp/1` is kept as `mlp` if it is the version under the model's own name. */
async function versionUnderOwnName(
  registry: Pick<ModelRegistry, "get" | "list">,
  asked: string,
): Promise<ModelSpec | undefined> {
  const { name, version } = splitModelName(asked);
  const first = version === undefined ? undefined : await askedSpec(registry, name);
  return first?.version === version ? first : undefined;
}

/** Every name that a model can be asked for by: of models, of their versions, of families and of their variants. */
export function askedNames(listed: readonly ListedModel[]): string[] {
  const specs = [...listed.map(({ spec }) => spec), ...variantsOf(listed)];
  const names = specs.flatMap(({ name, version }) => {
    const publicName = publicNameOf(name);
    return [publicName, name, versionName(publicName, version)];
  });
  return [...new Set(names)];
}

/** The refusal of a name that no model has: it suggests a similar one. */
export const absentModelError = async (registry: Pick<ModelRegistry, "list">, name: string): Promise<TuttiError> =>
  noModelError(name, askedNames(await registry.list()));

/** Models of all families, as their publishers know them; later families after earlier ones. */
export const variantsOf = (listed: readonly ListedModel[]): ModelSpec[] =>
  listed
    .map(({ spec }) => spec)
    .filter((spec) => spec.family !== undefined && isModelSpec(spec))
    .sort((a, b) => a.number - b.number)
    .flatMap((spec) => spec.family!.variants.map((_, i) => variantView(spec, i)));

/** The file of a model that is served. @throws {TuttiError} NOT_FOUND, UNAVAILABLE */
export function modelFile(store: Store, { name, file }: Pick<ModelSpec, "name" | "file">): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    if (file === undefined) return reject(new TuttiError("TUTTI_NOT_FOUND", `${name} has no file: it is emulated`));
    store.files.get(file.object, (result) => {
      if (result === "absent") reject(new TuttiError("TUTTI_NOT_FOUND", `the file of ${name} is not in the store`));
      else if (isStoreFailure(result))
        reject(new TuttiError("TUTTI_UNAVAILABLE", `the file of ${name} can't be fetched: ${result.failure}`));
      else resolve(result.bytes);
    });
  });
}
