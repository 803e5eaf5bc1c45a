/** The programs that tests of the Helm chart need. `node infra/deploy/tools.mjs` builds those that are not there. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { parseAllDocuments } from "yaml";

export const ROOT = join(import.meta.dirname, "../..");
export const CHART = join(ROOT, "infra/deploy/chart");
const BIN = join(ROOT, ".tutti/bin");

/** Where a program is: as the variable says, in .tutti/bin, or on the PATH. */
export function findProgram(name: string, variable: string): string | undefined {
  const given = process.env[variable];
  if (given !== undefined) return given === "" ? undefined : given;
  const folders = [BIN, ...(process.env["PATH"] ?? "").split(delimiter)];
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
}

/** The oldest Kubernetes that the chart takes, and a current one. */
export const VERSIONS = ["1.30.0", "1.37.0"] as const;

export const HELM = findProgram("helm", "TUTTI_HELM");
export const NO_HELM = "no helm is here: node infra/deploy/tools.mjs helm";

export interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  // Manifests are data: tests read what they are about.
  readonly spec?: any; // eslint-disable-line @typescript-eslint/no-explicit-any
  readonly data?: Readonly<Record<string, string>>;
}

export type Values = Readonly<Record<string, unknown>>;

/** Runs helm with these values, and returns what it says. */
export function helm(args: readonly string[], values: Values = {}): { status: number; stdout: string; stderr: string } {
  const { status, stdout, stderr } = spawnSync(HELM!, [...args, "--values", "-"], {
    ...{ input: JSON.stringify(values), encoding: "utf8" as const },
  });
  return { status: status ?? 1, stdout, stderr };
}

/** The text of the manifests. @throws {Error} with what helm says */
export function renderText(values: Values): string {
  const args = ["template", "t", CHART, "--namespace", "ai", "--kube-version", VERSIONS[0]];
  const { status, stdout, stderr } = helm(args, values);
  if (status !== 0) throw new Error(stderr);
  return stdout;
}

export const render = (values: Values): readonly KubernetesObject[] =>
  parseAllDocuments(renderText(values))
    .map((document) => document.toJS() as KubernetesObject | null)
    .filter((object) => object !== null);

/** Hands a program a text. @returns what it prints @throws {Error} with that, where it fails */
export function feed(program: string, input: string): string {
  const { status, stdout, stderr, error } = spawnSync(program, { input, encoding: "utf8" });
  if (status !== 0) throw new Error(`${program}: ${error?.message ?? ""}${stdout}${stderr}`);
  return stdout;
}
