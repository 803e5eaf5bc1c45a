/**
 * The first process of the namespaces that with-cluster.mjs makes: it starts Kubernetes' parts, runs the command, and
 * when it ends the kernel ends all others.
 */
import { execFileSync, spawn } from "node:child_process";
import { createHash, generateKeyPairSync, randomUUID } from "node:crypto";
import { copyFileSync, existsSync, mkdirSync, openSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pass } from "node:timers/promises";
import * as files from "./files.mjs";

const [folder = "", cgroup = "", cniFolder = "", bin = "", ...command] = process.argv.slice(2);
/** How long a busy machine takes to start it all. */
const READY_MS_MAX = 300_000;
const startedMs = performance.now();
const KUBERNETES = join(bin, "kubernetes");
const kubeconfig = join(folder, "kubeconfig");
const socket = join(folder, "containerd.sock");

/** @param {string} program @param {string[]} args @param {{ input?: Buffer | string }} [options] */
const output = (program, args, options = {}) =>
  execFileSync(program, args, { encoding: "utf8", stdio: ["pipe", "pipe", "pipe"], ...options });
/** @param {string[]} args */
const kubectl = (...args) => output(KUBERNETES, ["kubectl", "--kubeconfig", kubeconfig, ...args]);

/** A first process has no default for signals. */
const endEarly = () => process.exit(130);
process.on("SIGINT", endEarly);
try {
  isolate();
  writeFiles();
  start("containerd", "containerd", "--config", join(folder, "containerd.toml"));
  const { servers, clients } = files.parts(folder, kubeconfig);
  for (const part of servers) startPart(part);
  // It writes its certificate, which the others read.
  await until("the API server answers", () => kubectl("get", "--raw", "/readyz") === "ok");
  await until("containerd answers", () => output("ctr", ["--address", socket, "version"]).includes("Server"));
  importPauseImage();
  for (const part of clients) startPart(part);
  start("coredns", join(bin, "coredns"), "-conf", join(folder, "Corefile"));
  await until("the node is ready", () => /\sReady\s/.test(kubectl("get", "nodes", "--no-headers")));
  await until("names are answered", dnsIsReady);
  output(KUBERNETES, ["kubectl", "--kubeconfig", kubeconfig, "apply", "-f", "-"], { input: files.storage(folder) });
} catch (error) {
  console.error(`kubernetes: ${error instanceof Error ? error.message : error}`);
  process.exit(1);
}
console.error(`kubernetes: ready after ${Math.round((performance.now() - startedMs) / 1_000)} s`);
// From now on it reaches the command, which ends in its own time.
process.off("SIGINT", endEarly).on("SIGINT", () => undefined);
const [program = "", ...args] = command;
const child = spawn(program, args, {
  stdio: "inherit",
  env: {
    ...process.env,
    PATH: `${join(folder, "bin")}:${process.env["PATH"]}`,
    KUBECONFIG: kubeconfig,
    LOCAL_K8S: kubeconfig,
    LOCAL_K8S_LOAD: `ctr --address ${socket} --namespace k8s.io images import -`,
  },
});
child.on("error", (error) => {
  console.error(`kubernetes: ${error.message}`);
  process.exit(127);
});
child.on("close", (code) => process.exit(code ?? 1));

/** Gives the cluster folders and addresses of its own. */
function isolate() {
  const docker = "/run/docker.sock";
  /** @param {string} name @param {string} path */
  const cover = (name, path) => {
    mkdirSync(join(folder, name));
    output("mount", ["--rbind", join(folder, name), path]);
  };
  if (existsSync(docker)) {
    // Docker's socket stays where programs look for it.
    writeFileSync(join(folder, "docker.sock"), "");
    output("mount", ["--bind", docker, join(folder, "docker.sock")]);
    cover("run", "/run");
    writeFileSync(docker, "");
    output("mount", ["--move", join(folder, "docker.sock"), docker]);
  } else cover("run", "/run");
  cover("lib", "/var/lib");
  output("mount", ["--make-rshared", "/"]);
  output("ip", ["link", "set", "lo", "up"]);
  output("ip", ["link", "add", files.BRIDGE, "type", "bridge"]);
  output("ip", ["address", "add", `${files.NODE_ADDRESS}/24`, "dev", files.BRIDGE]);
  output("ip", ["link", "set", files.BRIDGE, "up"]);
  // There is nothing outside; a route to it is what programs choose their own address by.
  output("ip", ["route", "add", "default", "dev", files.BRIDGE]);
  writeFileSync("/proc/sys/net/ipv4/ip_forward", "1");
}

function writeFiles() {
  const token = randomUUID();
  /** @param {string} name @param {string} text */
  const write = (name, text) => writeFileSync(join(folder, name), text, { mode: 0o600 });
  for (const name of ["bin", "cni", "volumes"]) mkdirSync(join(folder, name));
  for (let i = 0; i < files.VOLUMES; i++) mkdirSync(join(folder, "volumes", `${i}`));
  symlinkSync(KUBERNETES, join(folder, "bin/kubectl"));
  write("tokens.csv", `${token},admin,admin,system:masters\n`);
  write("service-accounts.pem", generateKeyPairSync("rsa", {
      modulusLength: 2048,
      publicKeyEncoding: { type: "spki", format: "pem" },
      privateKeyEncoding: { type: "pkcs8", format: "pem" },
    }).privateKey); // prettier-ignore
  write("kubeconfig", files.kubeconfig(folder, token));
  write("kubelet.yaml", files.kubelet(folder, cgroup));
  write("containerd.toml", files.containerd(folder, cniFolder));
  write("cni/10-bridge.conflist", files.cni(folder));
  write("Corefile", files.dns(kubeconfig));
}

/** @param {string[]} part */
function startPart([name = "", ...rest]) {
  start(name, KUBERNETES, name, ...rest);
}

/** @param {string} name @param {string} program @param {string[]} rest */
function start(name, program, ...rest) {
  const log = openSync(join(folder, `${name}.log`), "a");
  const part = spawn(program, rest, { stdio: ["ignore", log, log] });
  part.on("close", (code) => {
    console.error(
      `kubernetes: ${name} ended (${code}): ${readFileSync(join(folder, `${name}.log`), "utf8").slice(-2_000)}`,
    );
    process.exit(1);
  });
}

/** An image of one layer with one file. */
function importPauseImage() {
  const image = join(folder, "pause");
  mkdirSync(join(image, "root"), { recursive: true });
  copyFileSync(join(bin, "pause"), join(image, "root/pause"));
  output("tar", ["--create", "--file", join(image, "layer.tar"), "--directory", join(image, "root"), "pause"]);
  const digest = createHash("sha256")
    .update(readFileSync(join(image, "layer.tar")))
    .digest("hex");
  const config = {
    architecture: process.arch === "x64" ? "amd64" : process.arch,
    os: "linux",
    config: { Entrypoint: ["/pause"], User: "65535" },
    rootfs: { type: "layers", diff_ids: [`sha256:${digest}`] },
  };
  writeFileSync(join(image, "config.json"), JSON.stringify(config));
  const manifest = [{ Config: "config.json", RepoTags: [files.PAUSE_IMAGE], Layers: ["layer.tar"] }];
  writeFileSync(join(image, "manifest.json"), JSON.stringify(manifest));
  const archive = join(folder, "pause.tar");
  output("tar", ["--create", "--file", archive, "--directory", image, "manifest.json", "config.json", "layer.tar"]);
  output("ctr", ["--address", socket, "--namespace", "k8s.io", "images", "import", archive]);
}

/** @param {string} what @param {() => boolean | Promise<boolean>} holds */
async function until(what, holds) {
  for (let last = ""; ; await pass(250)) {
    try {
      if (await holds()) return;
    } catch (error) {
      last = error instanceof Error ? error.message : `${error}`;
    }
    if (performance.now() - startedMs > READY_MS_MAX) throw new Error(`waited in vain until ${what}: ${last}`);
  }
}

async function dnsIsReady() {
  return (await fetch(`http://${files.NODE_ADDRESS}:8181/ready`)).ok;
}
