/** Which packages run in production: those that the image's entry points depend on, and what these depend on. */
import { existsSync, readFileSync, readdirSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";

interface Manifest {
  readonly name: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

export interface ProductionPackages {
  /** Folders of the workspace, by package name. */
  readonly own: ReadonlyMap<string, string>;
  /** Folders below a node_modules. */
  readonly installed: readonly string[];
}

/**
 * Follows the dependencies as Node resolves them in this clone. An optional or peer dependency that isn't installed is
 * left out.
 *
 * @throws {Error} a dependency isn't installed
 */
export function productionPackages(root: string, entries: readonly string[]): ProductionPackages {
  const own = new Map<string, string>();
  const installed = new Set<string>();
  const workspace = workspacePackages(root);
  const target = (name: string, from: string): string | undefined =>
    workspace.get(name) ?? installedFolder(name, { from, root });
  const visit = (folder: string): void => {
    const manifest = readManifest(folder);
    const { dependencies = {}, optionalDependencies = {}, peerDependencies = {} } = manifest;
    const isOptional = (name: string): boolean => name in optionalDependencies || !(name in dependencies);
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies })) {
      const found = target(name, folder);
      if (found !== undefined) add(name, found);
      else if (!isOptional(name))
        throw new Error(`${manifest.name} needs ${name}, which isn't installed: npm run setup`);
    }
  };
  const add = (name: string, folder: string): void => {
    if (own.has(name) || installed.has(folder)) return;
    if (workspace.has(name)) own.set(name, folder);
    else installed.add(folder);
    visit(folder);
  };
  for (const name of entries) add(name, target(name, root) ?? join(root, "node_modules", name));
  return { own, installed: [...installed] };
}

function workspacePackages(root: string): ReadonlyMap<string, string> {
  const folders = ["packages", "services"].flatMap((layer) =>
    readdirSync(join(root, layer)).map((name) => join(root, layer, name)),
  );
  const packages = folders.filter((folder) => existsSync(join(folder, "package.json")));
  return new Map(packages.map((folder) => [readManifest(folder).name, folder]));
}

/** The folder of a package as Node finds it: in the node_modules of `from`, or of a folder above it. */
function installedFolder(name: string, { from, root }: { from: string; root: string }): string | undefined {
  for (let folder = from; ; folder = dirname(folder)) {
    const path = join(folder, "node_modules", name);
    if (existsSync(join(path, "package.json"))) return realpathSync(path);
    if (folder === root) return undefined;
  }
}

const readManifest = (folder: string): Manifest =>
  JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
