/**
 * Launch settings for the process of a part of an accelerator (gpulet, §4; docs/algorithms.md, D5). On a CPU it gets a
 * set of cores and as many threads. On NVIDIA it runs under CUDA MPS with a share of the multiprocessors, which is
 * fixed for the process: another size needs another process.
 */
import { spawnSync } from "node:child_process";
import { availableParallelism } from "node:os";
import { SIZES, WHOLE } from "@tutti/planning";
import { assert } from "@tutti/units";
import { usageError } from "@tutti/admin";

/** A part of an accelerator. */
export interface Part {
  /** In percent; 100: the whole accelerator. */
  readonly size: number;
  /** 0: the first part; 1: the one beside it. */
  readonly place: 0 | 1;
}

export interface Machine {
  readonly provider: "cpu" | "webgpu" | "cuda" | "emulated";
  /** For a CPU: the accelerator's cores. */
  readonly cores: readonly number[];
  /** Whether processes can be bound to cores. */
  readonly hasTaskset: boolean;
}

export interface PartLaunch {
  /** Goes before the command and its arguments. */
  readonly prefix: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Threads of a run. */
  readonly threads: number;
  readonly cores: readonly number[];
}

/** CUDA's variable for the share of the multiprocessors, in percent, for the whole life of a process. */
const MPS_SHARE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";

/** Whether `taskset` works. It is part of util-linux, so of nearly every Linux. */
export const hasTaskset = (): boolean => spawnSync("taskset", ["-V"]).status === 0;

export const thisMachine = (provider: Machine["provider"]): Machine => ({
  provider,
  cores: Array.from({ length: availableParallelism() }, (_, core) => core),
  hasTaskset: provider === "cpu" && hasTaskset(),
});

/**
 * Sizes that an accelerator can be split into, ascending; the last is 100. On a CPU each size is a whole number of
 * cores (two cores: 50 and 100; four: 25, 50, 75, 100).
 */
export function usableSizes({ provider, cores }: Pick<Machine, "provider" | "cores">): readonly number[] {
  if (provider === "webgpu") return [WHOLE];
  if (provider !== "cpu" || cores.length > SIZES_AT_MOST) return SIZES;
  const count = cores.length;
  return Array.from({ length: count }, (_, i) => {
    const own = i + 1;
    return 2 * own <= count ? Math.round((WHOLE * own) / count) : WHOLE - Math.round((WHOLE * (count - own)) / count);
  });
}
const SIZES_AT_MOST = 16;

/** @throws {CommandError} the machine can't be split so */
export function launchOf(part: Part, machine: Machine): PartLaunch {
  const { size, place } = part;
  assert(size > 0 && size <= WHOLE, `a part of ${size} %`);
  const isWhole = size === WHOLE;
  switch (machine.provider) {
    case "emulated":
      return { prefix: [], env: {}, threads: 1, cores: [] };
    case "webgpu":
      if (!isWhole) throw usageError("parts of an accelerator: the webgpu provider can't be limited to one");
      return { prefix: [], env: {}, threads: 1, cores: [] };
    case "cuda":
      return { prefix: [], env: isWhole ? {} : { [MPS_SHARE]: String(size) }, threads: 1, cores: [] };
    case "cpu": {
      const cores = coresOf(part, machine.cores);
      const prefix = machine.hasTaskset ? ["taskset", "-c", cores.join(",")] : [];
      return { prefix, env: {}, threads: cores.length, cores };
    }
  }
  function coresOf({ size: percent }: Part, all: readonly number[]): readonly number[] {
    if (isWhole) return all;
    // The smaller part is rounded, and the other one has the rest, so that they share no core. With an odd number of
    // cores, the second of two halves is smaller.
    const half = 2 * percent === WHOLE;
    const smaller = half
      ? Math.floor(all.length / 2)
      : Math.round((Math.min(percent, WHOLE - percent) / WHOLE) * all.length);
    if (smaller < 1)
      throw usageError(
        `a part of ${percent} %: ${all.length} cores can be split into ${usableSizes(machine).join(", ")} %`,
      );
    const isSmaller = half ? place === 1 : 2 * percent < WHOLE;
    const own = isSmaller ? smaller : all.length - smaller;
    return place === 0 ? all.slice(0, own) : all.slice(all.length - own);
  }
}
