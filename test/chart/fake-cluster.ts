/** An API server that has some StatefulSets and nothing else, for what the chart looks up in a cluster. */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { CHART, HELM, type KubernetesObject, type Values } from "./helm.ts";

const SETS = "/apis/apps/v1/namespaces/ai/statefulsets/";
const RESOURCES = {
  kind: "APIResourceList",
  groupVersion: "apps/v1",
  resources: [{ name: "statefulsets", namespaced: true, kind: "StatefulSet", verbs: ["get"] }],
};

/**
 * Renders an upgrade of the release `t` in a cluster with these sets.
 *
 * @param replicas - of each set, by its name
 * @param folder - for the file that names the cluster
 * @throws {Error} with what helm says
 */
export async function renderUpgrade(
  values: Values,
  replicas: Readonly<Record<string, number>>,
  folder: string,
): Promise<readonly KubernetesObject[]> {
  const server = createServer(({ url = "" }, response) => {
    const count = url.startsWith(SETS) ? replicas[url.slice(SETS.length)] : undefined;
    const set = { apiVersion: "apps/v1", kind: "StatefulSet", metadata: {}, spec: { replicas: count } };
    const missing = { kind: "Status", apiVersion: "v1", status: "Failure", reason: "NotFound", code: 404 };
    const body = url.startsWith("/apis/apps/v1?") || url === "/apis/apps/v1" ? RESOURCES : count ? set : missing;
    response.writeHead(body === missing ? 404 : 200, { "content-type": "application/json" });
    response.end(JSON.stringify(body));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    const kubeconfig = join(folder, "kubeconfig.json");
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    writeFileSync(kubeconfig, JSON.stringify(configFor(address)));
    const args = ["template", "t", CHART, "--namespace", "ai", "--is-upgrade", "--dry-run=server"];
    const text = await output(
      [...args, "--kube-version", "1.30.0", "--kubeconfig", kubeconfig, "--values", "-"],
      values,
    );
    return parseAllDocuments(text).flatMap((document) => (document.toJS() as KubernetesObject | null) ?? []);
  } finally {
    server.close();
  }
}

const configFor = (server: string): object => ({
  apiVersion: "v1",
  kind: "Config",
  clusters: [{ name: "fake", cluster: { server } }],
  contexts: [{ name: "fake", context: { cluster: "fake", user: "nobody" } }],
  users: [{ name: "nobody", user: {} }],
  "current-context": "fake",
});

function output(args: readonly string[], values: Values): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile(HELM!, args, { maxBuffer: 1e8 }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(new Error(stderr));
    });
    child.stdin!.end(JSON.stringify(values));
  });
}
