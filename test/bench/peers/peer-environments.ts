/** A Python environment for each peer, below .tutti/peers, created once with pinned versions. */
import { execFile } from "node:child_process";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

export type PeerName = "mosec" | "litserve" | "bentoml" | "pytriton" | "ray";

const FOLDER = join(import.meta.dirname, "../../../.tutti/peers");
const RUNTIME = "onnxruntime==1.32.0";
const PACKAGES: Readonly<Record<PeerName, readonly string[]>> = {
  mosec: ["mosec==0.9.8", "numpy==2.4.6", "orjson==3.13.0", RUNTIME],
  litserve: ["litserve==0.2.19", "numpy==2.4.6", RUNTIME],
  bentoml: ["bentoml==1.4.40", "numpy==2.4.6", RUNTIME],
  pytriton: ["nvidia-pytriton==0.7.0", "numpy==1.26.4", RUNTIME],
  ray: ["ray[serve]==2.60.0", "numpy==2.4.6", "orjson==3.13.0", RUNTIME],
};
const INSTALL_MS_MAX = 300_000;

export type Environment = { readonly python: string } | { readonly problem: string };

/** @param say - progress, where an environment has to be created */
export async function environmentOf(peer: PeerName, say: (text: string) => void): Promise<Environment> {
  const folder = join(FOLDER, peer);
  const python = join(folder, "bin/python");
  const mark = join(folder, `installed ${PACKAGES[peer].join(" ")}`.replaceAll(/[[\]]/g, "-"));
  if (existsSync(mark)) return { python };
  say(`installs ${peer} into .tutti/peers, once`);
  try {
    rmSync(folder, { recursive: true, force: true });
    await run("python3", ["-m", "venv", folder]);
    await run(python, ["-m", "pip", "install", "-q", "--disable-pip-version-check", ...PACKAGES[peer]]);
    writeFileSync(mark, "");
    return { python };
  } catch (error) {
    return { problem: `it can't be installed here: ${reasonOf(error as InstallError)}` };
  }
}

const execute = promisify(execFile);
const run = (command: string, args: readonly string[]): Promise<unknown> =>
  execute(command, args, { timeout: INSTALL_MS_MAX, killSignal: "SIGKILL" });

interface InstallError extends Error {
  readonly killed?: boolean;
  readonly stderr?: string;
}

/** The reason of a failed installation: pip's last line. */
export function reasonOf({ killed, stderr = "", message }: InstallError): string {
  if (killed === true) return `it took more than ${INSTALL_MS_MAX / 1_000} s`;
  const lines = stderr.split("\n").filter((line) => line.trim() !== "");
  return (lines.findLast((line) => line.startsWith("ERROR")) ?? lines.at(-1) ?? message.split("\n")[0]!).trim();
}
