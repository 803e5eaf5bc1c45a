import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vitest/config";

/**
 * Suites whose files run one after the other: they measure, or load the machine by themselves. Files of e2e run two at
 * a time, since most of their time is waiting; what they measure has the room that a busy machine needs.
 */
const alone = new Set(["alone", "attack", "containers", "kubernetes", "bench", "release", "soak"]);
/**
 * Suites whose files wait most of their time, for servers that start, end or are away: three at a time use two cores.
 */
const waiting = new Set(["conformance"]);

const folder = join(import.meta.dirname, "test");
const suites = readdirSync(folder, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && entry.name !== "node_modules" && hasTests(join(folder, entry.name)))
  .map((entry) => entry.name);

function hasTests(path: string): boolean {
  return existsSync(path) && readdirSync(path, { recursive: true }).some((name) => String(name).endsWith(".test.ts"));
}

export default defineConfig({
  cacheDir: ".tutti/cache/vite",
  test: {
    maxWorkers: 2,
    // Tests run by Node's own loader, as the programs do: imports are bindings instead of getters of a module runner,
    // which took an eighth of the processor time, and compiled code comes from Node's cache.
    experimental: { viteModuleRunner: false },
    setupFiles: [join(import.meta.dirname, "test/fixtures/property-seeds.ts")],
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: ["packages/**/*.test.ts", "services/**/*.test.ts"],
          testTimeout: 60_000, // the longest takes 5 s on a quiet machine; the suite of containers runs beside it
          // Files share their worker's modules, which were most of the time. `--sequence.shuffle.files` shows that none
          // depends on another.
          isolate: false,
        },
      },
      ...suites.map((name) => ({
        extends: true as const,
        test: {
          name,
          include: [`test/${name}/**/*.test.ts`],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          fileParallelism: !alone.has(name),
          maxWorkers: waiting.has(name) ? 3 : 2,
          sequence: { groupOrder: waiting.has(name) ? 1 : 0 }, // vitest wants one number of workers in a group
        },
      })),
    ],
  },
});
