/** The Helm chart as helm renders it: valid manifests, least privilege, files that `tutti` and nats-server take. */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findNatsServer } from "@tutti/bus-nats";
import { MODEL_BYTES_MAX } from "@tutti/onnx-tools";
import { parseBytes } from "@tutti/units";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import {
  CHART,
  HELM,
  type KubernetesObject,
  NO_HELM,
  ROOT,
  VERSIONS,
  type Values,
  feed,
  findProgram,
  helm,
  render,
  renderText,
} from "./helm.ts";
import { parse } from "yaml";
import { renderUpgrade } from "./fake-cluster.ts";
import { EVERYTHING, EXECUTORS, SETS, TRIAL, WITHOUT_CUSTOM_RESOURCES } from "./value-sets.ts";

let folder = "";
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), "tutti-chart-"))));
afterAll(() => rmSync(folder, { recursive: true }));
beforeEach((context) => {
  if (HELM === undefined) context.skip(NO_HELM);
});

const tutti = (...args: string[]) =>
  execFileSync(process.execPath, ["packages/cli/src/main.ts", ...args], { cwd: ROOT, encoding: "utf8" });
const ofKind = (objects: readonly KubernetesObject[], kind: string) => objects.filter((one) => one.kind === kind);
const named = (objects: readonly KubernetesObject[], kind: string, name: string) =>
  ofKind(objects, kind).find(({ metadata }) => metadata.name === name)!;

interface Variable {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: { readonly fieldRef?: { readonly fieldPath: string } };
}
interface Volume {
  readonly secret?: { readonly items?: readonly { readonly key: string }[] };
  readonly projected?: { readonly sources: readonly { readonly secret?: Volume["secret"] }[] };
}

test.each(SETS)("helm finds nothing wrong: %s", (_name, values) => {
  for (const version of VERSIONS) {
    const { status, stdout, stderr } = helm(["lint", "--strict", "--kube-version", version, CHART], values);
    expect([status, stdout, stderr]).toEqual([0, expect.stringContaining("0 chart(s) failed"), ""]);
  }
});

test("a Kubernetes that is too old is refused by name", () => {
  const { status, stderr } = helm(["template", "t", CHART, "--kube-version", "1.29.0"], TRIAL);
  expect([status, stderr]).toEqual([1, expect.stringContaining("requires kubeVersion: >=1.30.0-0")]);
});

const WRONG: readonly (readonly [values: object, says: string])[] = [
  [{}, "set auth.secret (the credentials that `tutti auth init` makes), or auth.insecure=true"],
  [{ auth: { insecure: true, secret: "s" } }, "auth.insecure=true contradicts auth.secret"],
  [{ auth: { insecure: true, tls: true } }, "auth.tls=true needs auth.secret"],
  [{ auth: { secret: "s" } }, "set auth.apiKeys=true"],
  [{ ...TRIAL, gateway: { repository: true } }, "gateway.repository=true needs auth.secret"],
  [{ ...TRIAL, nats: { replicas: 2 } }, "nats.replicas=2"],
  [{ ...TRIAL, node: { replicas: 0 } }, "node.replicas=0 needs nats.url"],
  [{ ...TRIAL, executor: { autoscaling: { enabled: true } } }, "set networkPolicy.monitoring"],
  [{ ...TRIAL, executor: { autoscaling: { enabled: true, min: 4, max: 2 } } }, "max=2 is less than min=4"],
  [{ ...TRIAL, executor: { autoscaling: { enabled: true, max: 2 } } }, "fallback=8 is more than max=2"],
  [{ ...EXECUTORS, executor: { autoscaling: { enabled: true } } }, "needs nodes in the same release"],
  [{ ...TRIAL, gateway: { service: { type: "LoadBalancer" } } }, "needs an ipBlock in networkPolicy.clients"],
  [{ ...TRIAL, executor: { replcas: 3 } }, "'replcas' not allowed"],
  [{ ...TRIAL, config: { "http-port": 80 } }, "'http-port' not allowed"],
  [{ ...TRIAL, executor: { provider: "gpu" } }, "value must be one of 'cpu', 'cuda', 'webgpu'"],
  [{ ...TRIAL, nats: { url: "localhost:4222" } }, "'localhost:4222' does not match pattern"],
];
test.each(WRONG)("wrong values end with one line: %j", (values, says) => {
  const { status, stdout, stderr } = helm(["template", "t", CHART, "--kube-version", VERSIONS[0]], { ...values });
  expect([status, stdout]).toEqual([1, ""]);
  expect(stderr.split("\n").filter((line) => line.includes(says))).toHaveLength(1);
});

test.each(SETS)("no pod has rights that it doesn't need: %s", (_name, values) => {
  const objects = render(values);
  for (const { metadata, spec } of ofKind(objects, "StatefulSet")) {
    const pod = spec.template.spec;
    expect([metadata.name, pod.automountServiceAccountToken, pod.enableServiceLinks]).toEqual([
      ...[metadata.name, false, false],
    ]);
    expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } });
    for (const { securityContext } of pod.containers)
      expect(securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      });
    const { labels } = spec.template.metadata;
    for (const kind of ["NetworkPolicy", "PodDisruptionBudget"]) {
      const chosen = ofKind(objects, kind).filter((one) => {
        const { matchLabels } = one.spec.podSelector ?? one.spec.selector;
        return Object.entries(matchLabels).every(([key, value]) => labels[key] === value);
      });
      expect([kind, chosen.map((one) => one.metadata.name)]).toEqual([kind, [metadata.name]]);
    }
  }
});

test("a pod gets the files of the secret that its users have, and no other", () => {
  const objects = render(EVERYTHING);
  const filesOf = (name: string): string[] => {
    const volumes = named(objects, "StatefulSet", name).spec.template.spec.volumes as Volume[];
    const secrets = volumes.flatMap(({ secret, projected }) => [
      secret,
      ...(projected?.sources ?? []).map((source) => source.secret),
    ]);
    return secrets.flatMap((secret) => (secret?.items ?? []).map(({ key }) => key));
  };
  expect(filesOf("t-tutti-executor")).toEqual(["executor.nk", "agent.nk", "ca.pem"]);
  expect(filesOf("t-tutti-nats")).toEqual(["users.conf", "ca.pem", "nats.pem", "nats-key.pem"]);
  const node = ["node.nk", "answers.nk", "agent.nk", "admin.nk", "api-keys.json"];
  expect(filesOf("t-tutti-node")).toEqual([...node, "ca.pem", "ingress.pem", "ingress-key.pem"]);
  const dir = authFolder();
  const made = readdirSync(dir, { recursive: true }).map((path) => String(path).split("/").at(-1));
  const wanted = ["executor", "nats", "node"].flatMap((name) => filesOf(`t-tutti-${name}`));
  expect([...wanted, "route-password"].filter((file) => !made.includes(file))).toEqual([]);
});

/** Makes the folder of `tutti auth init` once, with a key for HTTP. */
function authFolder(): string {
  const dir = join(folder, "auth");
  if (!existsSync(dir)) {
    tutti("auth", "init", "--dir", dir, "--app", "shop", "--tls", "--json");
    tutti("auth", "key", "add", "shop", "--dir", dir);
  }
  return dir;
}

// Executors have the same file in all sets.
test.each([
  ["a trial", "node", TRIAL],
  ["everything", "node", EVERYTHING],
  ["everything", "executor", EVERYTHING],
] as const)("`tutti` takes the file and the environment of the pods: %s, %s", (name, role, values) => {
  const objects = render(values);
  const file = join(folder, `${name.replaceAll(" ", "-")}.yaml`);
  const { data } = ofKind(objects, "ConfigMap").find(({ metadata }) => metadata.name.endsWith("-config"))!;
  writeFileSync(file, data!["tutti.yaml"]!);
  const { containers } = named(objects, "StatefulSet", `t-tutti-${role}`).spec.template.spec;
  const [{ args, env }] = containers as [{ args: string[]; env: Variable[] }];
  const shown = env.map(({ name: variable, value, valueFrom }) => {
    const field = valueFrom?.fieldRef?.fieldPath ?? "";
    return [variable, value ?? (field === "status.podIP" ? "10.1.2.3" : field.includes("pod-index") ? "7" : field)];
  });
  const words = args.map((word) => (word === "/etc/tutti/tutti.yaml" ? file : word));
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ["packages/cli/src/main.ts", "config", "print", ...words, "--json"],
    { cwd: ROOT, encoding: "utf8", env: Object.fromEntries(shown) },
  );
  expect([status, stderr]).toEqual([0, ""]);
  const { options } = JSON.parse(stdout) as { options: { name: string; value: string }[] };
  const inForce = Object.fromEntries(options.map((option) => [option.name, option.value]));
  expect(inForce).toMatchObject(
    role === "executor"
      ? { gpus: "7", provider: "cuda", health: "0.0.0.0:8003" }
      : { "http-host": "0.0.0.0", "http-port": "8000", health: "0.0.0.0:8003" },
  );
});

test("nats-server takes the configuration: without users, with them, and with two others", () => {
  const dir = authFolder();
  const secret = new Map(
    ["users.conf", "route-password", "tls/ca.pem", "tls/nats.pem", "tls/nats-key.pem"].map((path) => [
      path.split("/").at(-1)!,
      readFileSync(join(dir, path), "utf8"),
    ]),
  );
  const withUsers = { auth: { secret: "tutti-auth", apiKeys: true } };
  for (const values of [TRIAL, withUsers, { ...TRIAL, nats: { replicas: 3 } }, EVERYTHING]) {
    const objects = render(values);
    const place = mkdtempSync(join(folder, "nats-"));
    const { data } = named(objects, "ConfigMap", "t-tutti-nats");
    for (const [name, text] of secret) writeFileSync(join(place, name), text);
    writeFileSync(join(place, "nats.conf"), data!["nats.conf"]!.replaceAll("/etc/nats/", `${place}/`));
    const env: Record<string, string> = { POD_NAME: "t-tutti-nats-0", PASSWORD: secret.get("route-password")! };
    const { containers } = named(objects, "StatefulSet", "t-tutti-nats").spec.template.spec;
    for (const { name, value } of containers[0].env as Variable[])
      if (value !== undefined) env[name] = value.replaceAll("$(PASSWORD)", env["PASSWORD"]!);
    const { status, stderr } = spawnSync(findNatsServer(), ["-t", "-c", join(place, "nats.conf")], {
      ...{ encoding: "utf8" as const, env },
    });
    expect([status, stderr]).toEqual([0, expect.stringContaining("configuration file")]);
  }
});

test("executors of their own find the cluster's servers, and have ids that no other release has", () => {
  const objects = render(EXECUTORS);
  const kinds = objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
  expect(kinds.filter((name) => /nats|node|Service/.test(name))).toEqual([]);
  expect(named(objects, "StatefulSet", "t-tutti-executor").spec.ordinals).toEqual({ start: 100 });
  const { egress } = named(objects, "NetworkPolicy", "t-tutti-executor").spec;
  expect(egress[1].ports.map(({ port }: { port: number }) => port)).toEqual([4222, 4222]);
});

test("an upgrade from one NATS server to three, or back, is refused: it would lose the streams", async () => {
  const upgrade = (from: number, to: number) =>
    renderUpgrade({ ...TRIAL, nats: { replicas: to } }, { "t-tutti-nats": from }, folder);
  await expect(upgrade(1, 3)).rejects.toThrow("nats.replicas=3, but this release has 1");
  await expect(upgrade(3, 1)).rejects.toThrow("nats.replicas=1, but this release has 3");
  for (const [from, to] of [
    [0, 3],
    [1, 1],
    [3, 5],
  ] as const)
    expect(named(await upgrade(from, to), "StatefulSet", "t-tutti-nats").spec.replicas).toBe(to);
});

test.each([["tutti.example.org,b.example.org"], [["tutti.example.org", "b.example.org"]]])(
  "gateways that check names know those of their own services: %j",
  (hosts) => {
    const values = { ...TRIAL, config: { "allowed-hosts": hosts } };
    const { data } = named(render(values), "ConfigMap", "t-tutti-config");
    const names = (parse(data!["tutti.yaml"]!) as Record<string, unknown>)["allowed-hosts"];
    const services = ["t-tutti", "t-tutti-node"].flatMap((name) =>
      ["", ".ai", ".ai.svc", ".ai.svc.cluster.local"].map((end) => name + end),
    );
    expect(names).toEqual(["tutti.example.org", "b.example.org", ...services]);
    const { spec } = named(render(EVERYTHING), "ScaledObject", "t-tutti-executor");
    expect(services).toContain(new URL(spec.triggers[0].metadata.url as string).hostname);
  },
);

test("no pod fills its host: its volumes have bounds, and the cache of models fits into the node's", () => {
  const objects = render(TRIAL);
  const limits = ["node", "executor"].map((role) => {
    const { volumes } = named(objects, "StatefulSet", `t-tutti-${role}`).spec.template.spec;
    const folders = (volumes as { name: string; emptyDir?: { sizeLimit?: string } }[]).filter((one) => one.emptyDir);
    return folders.map(({ name, emptyDir }) => `${name} ${emptyDir!.sizeLimit}`);
  });
  expect(limits).toEqual([
    ["data 12Gi", "tmp 1Gi"],
    ["data 2Gi", "tmp 1Gi"],
  ]);
  const { containers } = named(objects, "StatefulSet", "t-tutti-node").spec.template.spec;
  const size = (containers[0].env as Variable[]).find(({ name }) => name === "TUTTI_MODEL_CACHE_SIZE")!.value!;
  expect(parseBytes(size)! + MODEL_BYTES_MAX).toBeLessThan(12 * 2 ** 30);
});

test.each(["executor", "node"])("no folder of the %s's lies in a volume where others may rename it", (name) => {
  const objects = render(EVERYTHING);
  const { containers } = named(objects, "StatefulSet", `t-tutti-${name}`).spec.template.spec;
  const { env, volumeMounts } = containers[0];
  expect(env).toContainEqual({ name: "TUTTI_LINKS", value: "/data/links" });
  expect(volumeMounts).toContainEqual({ name: "data", mountPath: "/data" });
  const text = named(objects, "ConfigMap", "t-tutti-config").data!["tutti.yaml"]!;
  expect(parse(text)).toHaveProperty("state", "/data/state");
});

test("an upgrade keeps the number of executors that KEDA has set, and says none where it knows none", async () => {
  const replicas = async (values: Values, live: Record<string, number>) =>
    named(await renderUpgrade(values, live, folder), "StatefulSet", "t-tutti-executor").spec.replicas as unknown;
  expect(await replicas(EVERYTHING, { "t-tutti-executor": 5 })).toBe(5);
  expect(await replicas(EVERYTHING, {})).toBeUndefined();
  expect(await replicas(WITHOUT_CUSTOM_RESOURCES, { "t-tutti-executor": 5 })).toBe(1);
  const [scaled] = ofKind(render(EVERYTHING), "ScaledObject");
  expect(scaled!.spec.fallback).toMatchObject({ replicas: 8, behavior: "currentReplicasIfHigher" });
});

const VALIDATORS: readonly (readonly [program: string, sets: readonly Values[]])[] = [
  ["validate-oldest", [TRIAL, WITHOUT_CUSTOM_RESOURCES, EXECUTORS]],
  ["validate-newest", [TRIAL, EVERYTHING, EXECUTORS]],
];
for (const [name, sets] of VALIDATORS)
  test(`the types of Kubernetes know every field of the manifests: ${name}`, (context) => {
    const program = findProgram(name, `TUTTI_${name.toUpperCase().replace("-", "_")}`);
    if (program === undefined) return context.skip(`no ${name} is here: node infra/deploy/tools.mjs validate`);
    for (const values of sets) expect(feed(program, renderText(values))).toMatch(/^\d+ valid, 0 wrong$/m);
    const wrong = renderText(TRIAL).replace("publishNotReadyAddresses", "publishUnreadyAddresses");
    expect(() => feed(program, wrong)).toThrow(/unknown field "spec.publishUnreadyAddresses"/);
  });
