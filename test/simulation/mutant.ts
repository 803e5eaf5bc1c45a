import { spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import type { Mutation } from "./mutations.ts";

/** Applies a grouping to every seed that a fifth of them has. */
const APART: Mutation = {
  name: "each actor apart",
  file: "test/simulation/groupings.ts",
  find: "if (draw < 0.2) return apart(slots);",
  replace: "if (draw < 1) return apart(slots);",
};

const root = join(import.meta.dirname, "../..");

/** A copy of the sources that the simulation runs, whose package names lead to the copies. */
export class Copy {
  readonly #folder: string;
  /** Compiled sources: all but one of them are the same in each run. */
  readonly #compiled: string;

  constructor() {
    const cache = join(root, ".tutti/cache");
    mkdirSync(cache, { recursive: true });
    // The copy is inside the repository, so that other packages resolve as usual.
    this.#folder = mkdtempSync(join(cache, "mutant-"));
    this.#compiled = join(this.#folder, "compiled");
    mkdirSync(join(this.#folder, "node_modules/@tutti"), { recursive: true });
    for (const name of neededPackages()) {
      for (const part of ["package.json", "src"]) copySources(`packages/${name}/${part}`, this.#folder);
      symlinkSync(join(this.#folder, "packages", name), join(this.#folder, "node_modules/@tutti", name));
    }
    for (const folder of ["test/fixtures/actor-cluster", "test/simulation"]) copySources(folder, this.#folder);
  }

  /**
   * Applies a mutation, runs seeds, and reverts it. @returns the first seed with a violation; undefined: there is none,
   * and the output says why
   */
  async find(mutation: Mutation, seeds: number): Promise<{ seed: number | undefined; output: string }> {
    const path = join(this.#folder, "packages", mutation.file);
    const source = readFileSync(path, "utf8");
    writeFileSync(path, patched(source, mutation));
    const groupings = join(this.#folder, "test/simulation/groupings.ts");
    const drawn = readFileSync(groupings, "utf8");
    if (mutation.isApart === true) writeFileSync(groupings, patched(drawn, APART));
    try {
      const script = join(this.#folder, "test/simulation/first-violation.ts");
      const { code, output } = await run([script, `${mutation.from ?? 1}`, `${seeds}`], this.#compiled);
      const found = code === 1 ? /^seed (\d+): /m.exec(output) : null;
      return { seed: found === null ? undefined : Number(found[1]), output };
    } finally {
      writeFileSync(path, source);
      writeFileSync(groupings, drawn);
    }
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Applies a mutation. A patch that does not apply is an error: it would count as a bug that was found, or never. */
export function patched(source: string, { name, file, find, replace }: Mutation): string {
  const parts = source.split(find);
  if (parts.length !== 2) throw new Error(`"${name}" fits ${parts.length - 1} places of ${file}, not one: renew it`);
  return parts.join(replace);
}

/** Packages that the actors and the suite import, directly or not. */
function neededPackages(): string[] {
  const needed = new Set(["actors", "ingress", "executor", "bus-nats"]);
  for (const name of needed) {
    const { dependencies = {} } = JSON.parse(readFileSync(join(root, "packages", name, "package.json"), "utf8")) as {
      dependencies?: Record<string, string>;
    };
    for (const dependency of Object.keys(dependencies))
      if (dependency.startsWith("@tutti/")) needed.add(basename(dependency));
  }
  return [...needed];
}

function copySources(path: string, folder: string): void {
  cpSync(join(root, path), join(folder, path), { recursive: true, filter: (source) => !source.endsWith(".test.ts") });
}

function run(args: readonly string[], compiled: string): Promise<{ code: number; output: string }> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, NODE_COMPILE_CACHE: compiled };
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"], env });
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
    child.on("error", reject);
    child.on("close", (code) => resolve({ code: code ?? -1, output }));
  });
}
