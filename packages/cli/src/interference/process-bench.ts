/**
 * Parts of this machine's accelerator, each a process. On a CPU it has cores of its own, on NVIDIA its share under CUDA
 * MPS.
 *
 * A model's use of cache and memory bandwidth is estimated, since counters are seldom available: its weights against
 * the cache, and its weights for each batch against the speed of copying memory. The fit takes these estimates as they
 * are, and its error includes theirs.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { WHOLE } from "@tutti/planning";
import { CommandError } from "@tutti/admin";
import type { LoadableModel } from "@tutti/admin/models";
import { type Machine, type Part, launchOf, usableSizes } from "@tutti/host/parts";
import type { PartAnswer, PartOrder } from "./part-messages.ts";
import type { BenchModel, PartRun, PartsBench } from "./parts-bench.ts";

export interface ProcessBenchOptions {
  readonly models: readonly LoadableModel[];
  readonly machine: Machine;
  /** Undefined: all sizes that the machine can be split into. */
  readonly sizes: readonly number[] | undefined;
  /** Minimum duration of each measurement. */
  readonly runMs: number;
  /** Size of the shared cache, and bytes copied per second. Undefined: read or measured on this machine. */
  readonly cacheBytes: number | undefined;
  readonly bytesPerSecond: number | undefined;
}

/** D5 wants 30. Long runs would take minutes for that, and vary less. */
const RUNS_LEAST = 8;
const SMALLEST = { batch: 1, times: 4 };
const COPIED = { bytes: 2 ** 26, times: 5 };
const CACHE = "/sys/devices/system/cpu/cpu0/cache/index3/size";
const CACHE_OTHERWISE = 32 * 2 ** 20;

/** @throws {CommandError} a part can't be started, or a model can't be loaded */
export async function processBench(options: ProcessBenchOptions): Promise<PartsBench> {
  const { machine, runMs } = options;
  const sizes = options.sizes ?? usableSizes(machine);
  const folder = mkdtempSync(join(tmpdir(), "tutti-interference-"));
  const parts = new Map<string, PartProcess>();
  const close = async (): Promise<void> => {
    await Promise.all([...parts.values()].map((part) => part.end()));
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const models = options.models.map(({ model, bytes }, i) => {
      if (bytes === undefined) throw new CommandError(`${model.name}: an emulated model runs on no part of a machine`);
      const path = join(folder, `${i}.onnx`);
      writeFileSync(path, bytes);
      return { model, path, weights: bytes.byteLength };
    });
    /** Parts start when first needed and are reused: starting one takes longer than measuring. */
    const partOf = async (size: number, place: 0 | 1): Promise<PartProcess> => {
      const key = `${size} ${place}`;
      let part = parts.get(key);
      if (part !== undefined) return part;
      parts.set(key, (part = new PartProcess({ size, place }, machine)));
      await part.started;
      for (const { model, path } of models) await part.ask({ kind: "load", model, path });
      return part;
    };
    const runOn = async (
      part: PartProcess,
      run: PartRun,
      forMs: number,
      runsMin: number,
    ): Promise<readonly number[]> => {
      const { name } = models[run.model]!.model;
      const told = await part.ask({ kind: "run", model: name, batchSize: run.batchSize, forMs, runsMin });
      return told.kind === "ran" ? told.runs : [];
    };
    const whole = await partOf(WHOLE, 0);
    const copied = options.bytesPerSecond ?? (await copySpeedOf(whole));
    const cacheBytes = options.cacheBytes ?? sharedCache();
    const alone = new Map<string, number>();
    const keyOf = ({ model, batchSize, size }: PartRun): string => `${model} ${batchSize} ${size}`;
    return {
      sizes,
      models: models.map(({ model }) => benchModelOf(model)),
      async alone(run, place) {
        const runs = await runOn(await partOf(run.size, place), run, runMs, RUNS_LEAST);
        alone.set(keyOf(run), Math.max(...runs));
        return runs;
      },
      async together([a, b]) {
        const [one, other] = [await partOf(a.size, 0), await partOf(b.size, 1)];
        const longest = Math.max(alone.get(keyOf(a)) ?? 0, alone.get(keyOf(b)) ?? 0);
        const forMs = Math.max(runMs, RUNS_LEAST * longest);
        return Promise.all([runOn(one, a, forMs, 1), runOn(other, b, forMs, 1)]);
      },
      uses(model, wholeMs) {
        const { weights } = models[model]!;
        return {
          cacheUse: Math.min(1, weights / cacheBytes),
          bandwidthUse: Math.min(1, weights / (wholeMs / 1000) / copied),
        };
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function benchModelOf({ name, slo, batchSizeMax }: LoadableModel["model"]): BenchModel {
  const batchSizes: number[] = [];
  for (let size = SMALLEST.batch; size < batchSizeMax; size *= SMALLEST.times) batchSizes.push(size);
  return { name, sloMs: slo / 1000, batchMax: batchSizeMax, batchSizes: [...batchSizes, batchSizeMax] };
}

async function copySpeedOf(part: PartProcess): Promise<number> {
  const told = await part.ask({ kind: "copy", ...COPIED });
  return told.kind === "copied" ? told.bytesPerSecond : Infinity;
}

/** Reads a size such as `36608K`. */
function sharedCache(): number {
  try {
    const [, count, unit] = /^(\d+)([KM])/.exec(readFileSync(CACHE, "utf8")) ?? [];
    return Number(count) * (unit === "M" ? 2 ** 20 : 2 ** 10) || CACHE_OTHERWISE;
  } catch {
    return CACHE_OTHERWISE;
  }
}

/** The process of one part; it answers one order at a time. */
class PartProcess {
  readonly started: Promise<PartAnswer>;
  readonly #child: ChildProcess;
  readonly #name: string;
  #waiting: PromiseWithResolvers<PartAnswer>;
  #said = "";

  constructor(part: Part, machine: Machine) {
    const { prefix, env, threads } = launchOf(part, machine);
    const script = fileURLToPath(new URL("./part-process.ts", import.meta.url));
    const args = [...prefix, process.execPath, script, machine.provider, String(threads), String(part.size)];
    this.#name = `the part of ${part.size} %`;
    this.#waiting = Promise.withResolvers();
    this.started = this.#waiting.promise;
    this.#child = spawn(args[0]!, args.slice(1), {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      env: { ...process.env, ...env },
    });
    this.#child.stderr?.on("data", (chunk: Buffer) => (this.#said = (this.#said + String(chunk)).slice(-SAID_AT_MOST)));
    this.#child.on("message", (told: PartAnswer) => {
      if (told.kind === "failed") this.#waiting.reject(new CommandError(`${this.#name}: ${told.reason}`));
      else this.#waiting.resolve(told);
    });
    this.#child.on("error", (error) => this.#lost(error.message));
    this.#child.on("close", () => this.#lost(`ended. ${this.#said}`));
  }

  ask(order: PartOrder): Promise<PartAnswer> {
    this.#waiting = Promise.withResolvers();
    if (this.#child.connected) this.#child.send(order);
    else this.#lost(`ended. ${this.#said}`);
    return this.#waiting.promise;
  }

  async end(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const closed = new Promise((resolve) => this.#child.once("close", resolve));
    this.#child.kill("SIGKILL"); // nothing is lost, and a run can't be cancelled
    await closed;
  }

  #lost(why: string): void {
    this.#waiting.promise.catch(() => undefined); // no order may be pending
    this.#waiting.reject(new CommandError(`${this.#name}: ${why}`));
  }
}
const SAID_AT_MOST = 2_000;
