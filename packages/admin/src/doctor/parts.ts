/** The programs that a Tutti consists of, their versions, and which of them don't fit together. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { findPackageJSON } from "node:module";
import { join } from "node:path";
import { findNatsServer } from "@tutti/bus-nats";
import { ONNXRUNTIME_WANTED } from "@tutti/engine-onnx";
import { TUTTI_RELEASE } from "@tutti/protocol";
import type { Finding } from "./finding.ts";

export interface Parts {
  readonly tutti: string;
  readonly node: string;
  /** Undefined: there is none, or it doesn't answer. */
  readonly natsServer: string | undefined;
  readonly onnxruntime: string | undefined;
  /** `@tutti/client`, where the project in the working directory has it. */
  readonly client: string | undefined;
}

/** @param folder - the project whose `@tutti/client` is looked at */
export async function readParts(folder: string = process.cwd()): Promise<Parts> {
  return {
    tutti: TUTTI_RELEASE,
    node: process.versions.node,
    natsServer: await natsServerVersion(),
    onnxruntime: packageVersion("onnxruntime-node", import.meta.url),
    client: packageVersion("@tutti/client", join(folder, "package.json")),
  };
}

/** One line for each part that doesn't fit, with the remedy. Pure. */
export function mismatchesOf({ tutti, onnxruntime, client }: Parts): string[] {
  const lines: string[] = [];
  if (onnxruntime !== ONNXRUNTIME_WANTED) {
    const found = onnxruntime === undefined ? "is not installed" : `is ${onnxruntime}`;
    lines.push(`onnxruntime-node ${found}, and tutti ${tutti} needs ${ONNXRUNTIME_WANTED}: install tutti again`);
  }
  if (client !== undefined && client !== tutti)
    lines.push(`@tutti/client is ${client}, and tutti is ${tutti}: npm install @tutti/client@${tutti}`);
  return lines;
}

export function judgeParts(parts: Parts): Finding {
  const check = "versions";
  const [mismatch] = mismatchesOf(parts);
  if (mismatch === undefined) {
    const client = parts.client === undefined ? "" : `, @tutti/client ${parts.client}`;
    return { check, state: "ok", found: `tutti ${parts.tutti}, onnxruntime ${parts.onnxruntime}${client}` };
  }
  const [found, next] = mismatch.split(": ");
  const why = "Only parts of one release are tested together.";
  return { check, state: "warn", found: found!, why, ...(next !== undefined && { next }) };
}

async function natsServerVersion(): Promise<string | undefined> {
  try {
    return await versionOfServer(findNatsServer());
  } catch {
    return undefined; // none is needed where the cluster is elsewhere
  }
}

/** The version that a nats-server prints; undefined: it doesn't answer. */
export const versionOfServer = (path: string): Promise<string | undefined> =>
  new Promise((resolve) =>
    execFile(path, ["--version"], { timeout: 10_000 }, (_, stdout, stderr) =>
      resolve(/(\d+\.\d+\.\d+)/.exec(stdout + stderr)?.[1]),
    ),
  );

function packageVersion(name: string, from: string): string | undefined {
  try {
    const file = findPackageJSON(name, from);
    const { version } = JSON.parse(readFileSync(file!, "utf8")) as { readonly version?: unknown };
    return typeof version === "string" ? version : undefined;
  } catch {
    return undefined; // it is not installed
  }
}
