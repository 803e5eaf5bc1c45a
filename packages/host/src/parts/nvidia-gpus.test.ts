import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, afterEach, expect, test, vi } from "vitest";
import { acceleratorName } from "../role/engines.ts";
import { parseRoleOptions } from "../role/role-options.ts";
import { nvidiaGpuName, nvidiaGpus } from "./nvidia-gpus.ts";

const folder = mkdtempSync(join(tmpdir(), "tutti-nvidia-"));
afterAll(() => rmSync(folder, { recursive: true }));
afterEach(() => vi.unstubAllEnvs());

/** Puts a nvidia-smi first on the PATH that prints this listing, or fails. */
function lists(listing: string, status = 0): void {
  const script = `#!/bin/sh\n[ "$*" = -L ] || exit 9\nexit_with=${status}\ncat <<'END'\n${listing}\nEND\nexit $exit_with\n`;
  writeFileSync(join(folder, "nvidia-smi"), script);
  chmodSync(join(folder, "nvidia-smi"), 0o755);
  vi.stubEnv("PATH", `${folder}${delimiter}${process.env["PATH"]}`);
  vi.stubEnv("CUDA_VISIBLE_DEVICES", undefined);
  vi.stubEnv("CUDA_DEVICE_ORDER", undefined);
}
const names = (count: number): Promise<(string | undefined)[]> =>
  Promise.all(Array.from({ length: count }, (_, device) => nvidiaGpuName(device)));

const UNLIKE = `GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1a2b)
GPU 1: Tesla T4 (UUID: GPU-3c4d)
GPU 2: NVIDIA GeForce RTX 4090 (UUID: GPU-5e6f)`;

test("each GPU of a host has the name that its driver gives it, and one that isn't there has none", async () => {
  lists(UNLIKE);
  expect(nvidiaGpus()).toBe(3);
  expect(await names(4)).toEqual(["a100-sxm4-80gb", "tesla-t4", "geforce-rtx4090", undefined]);
});

test("a process that sees some GPUs only counts these, by their numbers or ids", async () => {
  lists(UNLIKE);
  vi.stubEnv("CUDA_VISIBLE_DEVICES", "2,0");
  expect(await names(3)).toEqual(["geforce-rtx4090", "a100-sxm4-80gb", undefined]);
  vi.stubEnv("CUDA_VISIBLE_DEVICES", "GPU-3c");
  expect(await names(1)).toEqual(["tesla-t4"]);
  vi.stubEnv("CUDA_VISIBLE_DEVICES", "");
  expect(await names(1)).toEqual([undefined]);
});

test("GPUs in an order of CUDA's own have no name by their number: it could be another's", async () => {
  lists(UNLIKE);
  vi.stubEnv("CUDA_DEVICE_ORDER", "FASTEST_FIRST");
  expect(await names(1)).toEqual([undefined]);
  vi.stubEnv("CUDA_VISIBLE_DEVICES", "GPU-3c4d");
  expect(await names(1)).toEqual(["tesla-t4"]);
});

test("a MIG instance is named after its GPU and size; without an id CUDA takes the first one", async () => {
  lists(`GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1a2b)
  MIG 3g.20gb     Device  0: (UUID: MIG-aa)
  MIG 1g.5gb+me   Device  1: (UUID: MIG-bb)`);
  expect(nvidiaGpus()).toBe(1);
  expect(await names(2)).toEqual(["a100-sxm4-40gb-mig-3g-20gb", undefined]);
  vi.stubEnv("CUDA_VISIBLE_DEVICES", "MIG-bb");
  expect(await names(1)).toEqual(["a100-sxm4-40gb-mig-1g-5gb-me"]);
});

test("where the driver's command is missing or fails, or names nothing, there is no name", async () => {
  lists("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9);
  expect(await names(1)).toEqual([undefined]);
  lists("GPU 0: 4090 (UUID: GPU-1a2b)");
  expect(await names(1)).toEqual([undefined]);
  vi.stubEnv("PATH", join(folder, "none"));
  expect(await names(1)).toEqual([undefined]);
});

test("a long name is cut, and ends with no number of its own, as a part of an accelerator does", async () => {
  lists(`GPU 0: NVIDIA ${"RTX PRO 6000 Blackwell ".repeat(4)} (UUID: GPU-1a2b)\nGPU 1: Some 5 50 (UUID: GPU-3c4d)`);
  const [long, numbers] = await names(2);
  expect(long).toMatch(/^rtx-pro-6000-blackwell-rtx[a-z0-9-]{38}$/);
  expect(numbers).toBe("some550");
});

test("an executor on CUDA takes its GPU's name, unless it is told another; on a CPU it has only what it is told", async () => {
  lists(UNLIKE);
  const nameOf = (...flags: string[]): Promise<string | undefined> =>
    acceleratorName(parseRoleOptions("executor", flags, {}));
  expect(await nameOf("--provider", "cuda", "--device", "1")).toBe("tesla-t4");
  expect(await nameOf("--provider", "cuda", "--accelerator-type", "old")).toBe("old");
  expect([await nameOf(), await nameOf("--accelerator-type", "old")]).toEqual([undefined, "old"]);
});
