import { spawnSync } from "node:child_process";

/** How many NVIDIA GPUs this host has for us, as its driver's own command lists them; 0 without one. */
export function nvidiaGpus(): number {
  const visible = process.env["CUDA_VISIBLE_DEVICES"];
  if (visible !== undefined) return visible.split(",").filter((device) => device.trim() !== "").length;
  const { stdout } = spawnSync("nvidia-smi", ["-L"], { encoding: "utf8", timeout: 10_000 });
  return gpusIn(stdout ?? "");
}

/** @param listing - printed by `nvidia-smi -L`; MIG's instances stand indented under their GPU and don't count */
export const gpusIn = (listing: string): number => listing.match(/^GPU \d+:/gm)?.length ?? 0;
