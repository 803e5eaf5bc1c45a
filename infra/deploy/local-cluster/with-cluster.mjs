/**
 * `node infra/deploy/local-cluster/with-cluster.mjs <command> …` runs a command beside a Kubernetes of this machine
 * alone, which ends with it: see README.md. The exit status is the command's.
 */
import { spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  rmdirSync,
  writeFileSync,
} from "node:fs";
import { constants, cpus, tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as pass } from "node:timers/promises";

const BIN = join(import.meta.dirname, "../../../.tutti/bin");
const CNI_FOLDERS = ["/opt/cni/bin", "/usr/lib/cni"];
/** The kubelet sets them for the whole machine. */
const KERNEL_SETTINGS = [
  ...["vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"],
  ...["kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"],
];

const command = process.argv.slice(2);
const reason = command.length === 0 ? "usage: with-cluster.mjs <command> …" : missing();
if (reason !== undefined) {
  console.error(`kubernetes: ${reason}`);
  process.exit(2);
}

const hierarchies = cgroupHierarchies();
const folder = mkdtempSync(join(tmpdir(), "tutti-kubernetes-"));
const settings = KERNEL_SETTINGS.map((name) => /** @type {const} */ ([`/proc/sys/${name}`, readSetting(name)]));
const cgroup = folder.slice(folder.lastIndexOf("/") + 1);
try {
  for (const hierarchy of hierarchies) mkdirSync(join(hierarchy, cgroup));
  // As much as Kubernetes gives all pods together.
  const shares = join("/sys/fs/cgroup/cpu", cgroup, "cpu.shares");
  if (existsSync(shares)) writeFileSync(shares, `${1_024 * cpus().length}`);
} catch (error) {
  console.error(`kubernetes: no cgroup ${cgroup}: ${textOf(error)}`);
  await cleanUp();
  process.exit(2);
}

// Namespaces of their own: processes, mounts, addresses and rules of the cluster end with its first process.
const child = spawn(
  "unshare",
  [
    ...["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"],
    ...[process.execPath, join(import.meta.dirname, "cluster.mjs"), folder, cgroup, cniFolder() ?? "", BIN, ...command],
  ],
  { stdio: "inherit" },
);
// Ctrl-C reaches the command by itself.
process.on("SIGINT", () => undefined);
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill("SIGKILL"));
child.on("error", (error) => console.error(`kubernetes: ${error.message}`));
child.on("close", async (code, signal) => {
  process.exitCode = code ?? 128 + constants.signals[signal ?? "SIGKILL"];
  await cleanUp();
});

/** Each step is done though another fails, and none changes the exit status. */
async function cleanUp() {
  for (const [path, value] of settings) if (value !== undefined) await attempt(path, () => writeFileSync(path, value));
  for (const hierarchy of hierarchies) {
    const path = join(hierarchy, cgroup);
    if (existsSync(path)) await attempt(path, () => removeCgroup(path));
  }
  await attempt(folder, () => rmSync(folder, { recursive: true, force: true }));
}

/** @param {string} what @param {() => void | Promise<void>} step */
async function attempt(what, step) {
  try {
    await step();
  } catch (error) {
    console.error(`kubernetes: ${what} stays as it is: ${textOf(error)}`);
  }
}

/** @param {unknown} error */
function textOf(error) {
  return error instanceof Error ? error.message : String(error);
}

/** Names the programs that this machine lacks, and how to get them. */
function missing() {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return "only root on Linux can start one";
  if (!["kubernetes", "pause", "coredns"].every((name) => existsSync(join(BIN, name))))
    return "not built yet: node infra/deploy/tools.mjs kubernetes (40 minutes of processor time)";
  const folders = (process.env["PATH"] ?? "").split(delimiter).concat("/usr/sbin", "/sbin");
  const lacking = ["containerd", "runc", "iptables", "ip", "unshare"].filter(
    (name) => !folders.some((one) => existsSync(join(one, name))),
  );
  if (cniFolder() === undefined) lacking.push("CNI plugins");
  if (lacking.length === 0) return undefined;
  return `no ${lacking.join(", ")}: apt-get install containerd runc iptables iproute2 containernetworking-plugins`;
}

function cniFolder() {
  return CNI_FOLDERS.find((one) => existsSync(join(one, "bridge")));
}

/** @param {string} name */
function readSetting(name) {
  try {
    return readFileSync(`/proc/sys/${name}`, "utf8");
  } catch {
    return undefined;
  }
}

/** The one hierarchy of cgroups, or the first version's many. */
function cgroupHierarchies() {
  if (existsSync("/sys/fs/cgroup/cgroup.controllers")) return ["/sys/fs/cgroup"];
  return readdirSync("/sys/fs/cgroup").map((name) => join("/sys/fs/cgroup", name));
}

/** @param {string} path */
async function removeCgroup(path) {
  for (const entry of readdirSync(path, { withFileTypes: true }))
    if (entry.isDirectory()) await removeCgroup(join(path, entry.name));
  // A killed process is in its group until it has left its last system call.
  const untilMs = performance.now() + 10_000;
  for (;;) {
    try {
      return rmdirSync(path);
    } catch (error) {
      if (performance.now() > untilMs) throw error;
      await pass(50);
    }
  }
}
