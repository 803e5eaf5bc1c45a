import { execFile, spawnSync } from "node:child_process";
import { promisify } from "node:util";
import { NAME_LENGTH_MAX, isAcceleratorName } from "@tutti/protocol";

const LIST = ["nvidia-smi", ["-L"], { encoding: "utf8", timeout: 10_000 }] as const;

/** How many NVIDIA GPUs this host has for us, as its driver's own command lists them; 0 without one. */
export function nvidiaGpus(): number {
  const visible = process.env["CUDA_VISIBLE_DEVICES"];
  if (visible !== undefined) return visible.split(",").filter((device) => device.trim() !== "").length;
  const { stdout } = spawnSync(...LIST);
  return gpusIn(stdout ?? "");
}

/** @param listing - printed by `nvidia-smi -L`; MIG's instances stand indented under their GPU and don't count */
export const gpusIn = (listing: string): number => devicesIn(listing).length;

/**
 * The name of an accelerator of ours for its executor type: `a100-sxm4-80gb`, with MIG `a100-sxm4-80gb-mig-3g-20gb`.
 *
 * @param device - as CUDA counts those that this process may use
 * @returns undefined where nvidia-smi is missing or doesn't know it
 */
export async function nvidiaGpuName(device: number): Promise<string | undefined> {
  const { stdout } = await promisify(execFile)(...LIST).catch(() => ({ stdout: "" }));
  const { CUDA_VISIBLE_DEVICES: visible, CUDA_DEVICE_ORDER: order = BY_BUS } = process.env;
  const devices = devicesIn(stdout);
  const wanted = visible === undefined ? String(device) : visible.split(",")[device]?.trim();
  if (wanted === undefined || wanted === "") return undefined;
  const isIndex = /^\d+$/.test(wanted);
  // By CUDA's own order an index is another's.
  if (isIndex && order !== BY_BUS && devices.length > 1) return undefined;
  const gpu = isIndex
    ? devices[Number(wanted)]
    : devices.find(({ uuid, instances }) => [{ uuid }, ...instances].some((one) => one.uuid.startsWith(wanted)));
  if (gpu === undefined) return undefined;
  // CUDA takes the first instance where none is named.
  const instance = gpu.instances.find(({ uuid }) => uuid.startsWith(wanted)) ?? gpu.instances[0];
  return nameOf([gpu.name, ...(instance === undefined ? [] : [instance.name])].join(" "));
}

/** The order of nvidia-smi's numbers, which our engine chooses too. */
const BY_BUS = "PCI_BUS_ID";

interface Device {
  readonly name: string;
  readonly uuid: string;
}

function devicesIn(listing: string): (Device & { readonly instances: readonly Device[] })[] {
  const devices: (Device & { instances: Device[] })[] = [];
  for (const [, name = "", uuid = "", instance = "", own = ""] of listing.matchAll(DEVICE))
    if (name !== "") devices.push({ name, uuid, instances: [] });
    else devices.at(-1)?.instances.push({ name: instance, uuid: own });
  return devices;
}
const DEVICE = /^GPU \d+: (.+?)(?: \(UUID: ([^)]+)\))?$|^\s+(MIG .+?)\s+Device\s+\d+: \(UUID: ([^)]+)\)$/gm;

/** Numbers at the end join the word before them: `geforce-rtx4090`. */
function nameOf(product: string): string | undefined {
  const words = product.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  const own = words.replace(/^(nvidia-)?/, "").slice(0, NAME_LENGTH_MAX);
  const name = own.replace(/(-\d+)*-?$/, (numbers) => numbers.replaceAll("-", ""));
  return isAcceleratorName(name) ? name : undefined;
}
