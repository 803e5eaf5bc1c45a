/** A runnable copy of a release: its files from git, with the dependencies that are installed here. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../tutti-up.ts";

const git = (...args: string[]): string =>
  execFileSync("git", ["-C", ROOT, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();

export interface Release {
  readonly commit: string;
  /** The number that the copy takes instead of its own; undefined: it keeps its own. */
  readonly renamed: string | undefined;
}

/**
 * The last release: the newest tag `v…` before this commit. Without one, this commit itself under another number.
 *
 * @returns a text: there is no repository to take it from
 */
export function lastRelease(): Release | string {
  try {
    const head = git("rev-parse", "HEAD");
    const tags = git("tag", "--list", "v*", "--sort=-version:refname", "--merged", head).split("\n");
    const tag = tags.find((one) => one !== "" && git("rev-parse", `${one}^{commit}`) !== head);
    return tag === undefined ? { commit: head, renamed: "0.0.9" } : { commit: tag, renamed: undefined };
  } catch {
    return "this folder is no git repository";
  }
}

/** @param folder - an empty folder. @throws {Error} git knows no such commit */
export function copyRelease({ commit, renamed }: Release, folder: string): void {
  const archive = execFileSync("git", ["-C", ROOT, "archive", commit], { maxBuffer: 1e9 });
  execFileSync("tar", ["-x", "-C", folder], { input: archive });
  linkDependencies(folder);
  if (renamed === undefined) return;
  const path = join(folder, "packages/protocol/src/release.ts");
  writeFileSync(path, readFileSync(path, "utf8").replace(/"[^"]+"/, `"${renamed}"`));
}

/** Links what is installed here, and the copy's own packages in place of ours. */
function linkDependencies(folder: string): void {
  const [installed, linked] = [join(ROOT, "node_modules"), join(folder, "node_modules")];
  mkdirSync(join(linked, "@tutti"), { recursive: true });
  for (const name of readdirSync(installed))
    if (name !== "@tutti") symlinkSync(join(installed, name), join(linked, name));
  for (const kind of ["packages", "services"])
    for (const name of readdirSync(join(folder, kind))) {
      const manifest = join(folder, kind, name, "package.json");
      if (!existsSync(manifest)) continue;
      const { name: full } = JSON.parse(readFileSync(manifest, "utf8")) as { readonly name: string };
      symlinkSync(join(folder, kind, name), join(linked, full));
      const own = join(ROOT, kind, name, "node_modules");
      if (existsSync(own) && !existsSync(join(folder, kind, name, "node_modules")))
        symlinkSync(own, join(folder, kind, name, "node_modules"));
    }
}
