/**
 * A plugin for the bundler. Code names the files that lie beside it by `new URL("./name", import.meta.url)`; in a
 * bundle the code lies elsewhere. Modules named so (entry points of threads and processes) become bundles of their own;
 * all other files and folders are copied into the package, at their paths in the repository. A library's file that code
 * resolves is copied beside the bundles.
 */
import { copyFileSync, cpSync, globSync, mkdirSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";

/** Modules that use `import.meta.dirname` for a default only: the launcher names the folder in the environment. */
const LAUNCHER_SETS = ["packages/admin/src/cluster/find-cluster.ts", "packages/bus-nats/src/server/nats-binary.ts"];

/** @param {string} root - of the repository @param {string} target - the package's folder; its bundles lie in lib/ */
export function filesBeside(root, target) {
  /** @type {Set<string>} */
  const copied = new Set();
  return {
    name: "files-beside",
    /**
     * @this {{ emitFile(file: { type: "chunk", id: string, fileName: string }): string }}
     * @param {string} code @param {string} id
     */
    transform(code, id) {
      const path = relative(root, id);
      if (path.startsWith("..") || path.includes("node_modules")) return undefined;
      if (code.includes("import.meta.dirname") && !LAUNCHER_SETS.includes(path))
        throw new Error(
          `${path}: name files beside the code by new URL(…, import.meta.url), which a bundle can follow`,
        );
      const named = /new URL\(\s*(["`])([^"`]+)\1,\s*import\.meta\.url\s*\)/g;
      const found = code.replace(named, (_, quote, name) => {
        const file = join(dirname(path), name);
        if (!file.endsWith(".ts")) {
          copied.add(file);
          return `new URL(${quote}../${packagePath(file)}${quote}, import.meta.url)`;
        }
        const fileName = bundleName(file);
        this.emitFile({ type: "chunk", id: join(root, file), fileName });
        return `new URL("./${fileName}", import.meta.url)`;
      });
      const resolved = /createRequire\(import\.meta\.url\)\.resolve\("([^"]+)"\)/g;
      return found.replace(resolved, (_, file) => {
        mkdirSync(join(target, "lib"), { recursive: true });
        copyFileSync(join(root, "node_modules", file), join(target, "lib", basename(file)));
        return `new URL("./${basename(file)}", import.meta.url)`;
      });
    },
    writeBundle() {
      for (const pattern of [...copied].map((file) => file.replaceAll(/\$\{\w+\}/g, "*"))) {
        const found = globSync(pattern, { cwd: root });
        if (found.length === 0) throw new Error(`there is no ${pattern} to copy into the package`);
        const filter = (/** @type {string} */ file) => !file.endsWith(".test.ts");
        for (const file of found)
          cpSync(join(root, file), join(target, packagePath(file)), { recursive: true, filter });
      }
    },
  };
}

/**
 * The same path, except that a package has no hidden folder (what the set-up has built lies in .tutti) and no test/
 * (where the scenarios lie).
 *
 * @param {string} file
 */
const packagePath = (file) => file.replace(/^\.tutti\//, "").replace(/^test\//, "share/");

/** "packages/node/src/decode/decode-worker.ts" is "node-decode-decode-worker.js". @param {string} file */
const bundleName = (file) =>
  `${file
    .replace(/^packages\//, "")
    .replace("/src/", "/")
    .replace(/\.ts$/, "")
    .replaceAll("/", "-")}.js`;
