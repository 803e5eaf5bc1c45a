/**
 * Writes the build context of infra/image/Dockerfile: the Node that runs this, the libraries that it and the addons are
 * linked with, production's packages and their dependencies. No registry is needed.
 */
import { chmod, copyFile, mkdir, readdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { librariesOf } from "./libraries.ts";
import { productionPackages } from "./production-packages.ts";

const ROOT = join(import.meta.dirname, "../..");
/** The commands, the roles, and what draws the commands' pages: a clone has that for its tools only. */
const ENTRIES = ["@tutti/cli", "@tutti/service-node", "echarts"];
/** The user and group `nobody`, by number: Kubernetes' `runAsNonRoot` checks a number. */
export const NOBODY = 65_534;

/** Files of which nothing is read at run time. Licences stay. */
const NEVER_READ = /\.(map|md|d\.[cm]?ts|tsx|test\.ts)$|^tsconfig.*\.json$/;

/** The part of a package that production reads, where the rest is large. Other files of it are left out. */
const PARTS: Readonly<Record<string, RegExp>> = {
  "onnxruntime-node": new RegExp(`^(?!bin/)|^bin/napi-v\\d+/${process.platform}/${process.arch}/`),
  echarts: /^(package\.json|LICENSE|NOTICE|dist\/echarts\.min\.js)$/,
};

/** `tutti` without a shell: the kernel starts Node by the first line. */
const COMMAND = `#!/usr/bin/node\nimport "/app/packages/cli/src/main.ts";\n`;

export interface ImageContext {
  /** It holds Dockerfile, runtime/ and app/ afterwards. */
  readonly folder: string;
  /** Copy no library, for a base image that has glibc and libstdc++. Default: the image stands on nothing. */
  readonly hasBase?: boolean;
}

/** @param folder - is created, and must not exist */
export async function writeImageContext({ folder, hasBase = false }: ImageContext): Promise<void> {
  if (process.platform !== "linux") throw new Error("an image is laid out from a Linux machine's own Node");
  const [runtime, app] = [join(folder, "runtime"), join(folder, "app")];
  await mkdir(dirname(folder), { recursive: true });
  await mkdir(folder);
  const { own, installed } = productionPackages(ROOT, ENTRIES);
  const binaries = [process.execPath];
  const copied = async (from: string): Promise<void> => {
    const name = from.slice(from.lastIndexOf("node_modules/") + "node_modules/".length);
    const files = await copyTree(from, join(app, relative(ROOT, from)), PARTS[name]);
    binaries.push(...files.filter((file) => /\.(node|so(\.\d+)*)$/.test(file)));
  };
  for (const from of [...own.values(), ...installed]) await copied(from);
  // Node strips types of files outside node_modules only, so the workspace stays beside it, as in the repository.
  await mkdir(join(app, "node_modules/@tutti"), { recursive: true });
  for (const [name, from] of own)
    await symlink(join("../..", relative(ROOT, from)), join(app, "node_modules", name), "dir");
  await copyTree(join(ROOT, ".tutti/console/page"), join(app, ".tutti/console/page"));

  await place(process.execPath, join(runtime, "usr/bin/node"), 0o755);
  await writeText(join(runtime, "usr/bin/tutti"), COMMAND, 0o755);
  for (const name of ["tmp", "data"]) {
    await mkdir(join(runtime, name), { recursive: true });
    await chmod(join(runtime, name), 0o1777); // also for a user that the container is given
  }
  if (!hasBase) {
    await writeText(join(runtime, "etc/passwd"), `nobody:x:${NOBODY}:${NOBODY}:nobody:/tmp:/sbin/nologin\n`);
    await writeText(join(runtime, "etc/group"), `nogroup:x:${NOBODY}:\n`);
    await writeText(join(runtime, "etc/nsswitch.conf"), "hosts: files dns\n");
    const libraries = new Set((await Promise.all(binaries.map(librariesOf))).flat());
    for (const library of libraries) if (!library.startsWith(ROOT)) await place(library, join(runtime, library), 0o755);
  }
  await copyFile(join(import.meta.dirname, "Dockerfile"), join(folder, "Dockerfile"));
}

/**
 * Copies the files of a package, without the packages inside it.
 *
 * @returns the paths of the copied files, in the source
 */
async function copyTree(from: string, to: string, part?: RegExp): Promise<string[]> {
  const found = await readdir(from, { recursive: true, withFileTypes: true });
  const files = found
    .filter((entry) => entry.isFile() && !NEVER_READ.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => isWanted(relative(from, file), part));
  for (const file of files) await place(file, join(to, relative(from, file)), 0o644);
  return files;
}

const isWanted = (path: string, part: RegExp | undefined): boolean =>
  !path.split("/").includes("node_modules") && (part === undefined || part.test(path));

async function place(from: string, to: string, mode: number): Promise<void> {
  await mkdir(dirname(to), { recursive: true });
  await copyFile(from, to);
  await chmod(to, mode);
}

async function writeText(path: string, text: string, mode = 0o644): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text, { mode });
}
