/** Values with which the chart is rendered: a trial, everything at once, and executors of their own. */
import type { Values } from "./helm.ts";

export const TRIAL: Values = { auth: { insecure: true } };

export const EVERYTHING: Values = {
  image: { repository: "registry.example/tutti", tag: "1.2.3", pullSecrets: [{ name: "registry" }] },
  config: { policy: "adaptive", otlp: "http://collector:4318", "await-models": ["mlp", "ctr"] },
  auth: { secret: "tutti-auth", tls: true, apiKeys: true },
  gateway: { tlsSecret: "gateway-tls", repository: true, service: { type: "LoadBalancer", annotations: { a: "b" } } },
  nats: { replicas: 3, storage: { size: "20Gi", className: "fast" }, nodeSelector: { disk: "ssd" } },
  node: { env: [{ name: "TUTTI_LOG_LEVEL", value: "debug" }] },
  executor: {
    provider: "cuda",
    image: { repository: "registry.example/tutti-cuda" },
    runtimeClassName: "nvidia",
    tolerations: [{ key: "nvidia.com/gpu", operator: "Exists", effect: "NoSchedule" }],
    autoscaling: { enabled: true, max: 8 },
  },
  spread: "DoNotSchedule",
  networkPolicy: {
    clients: [{ podSelector: {} }, { ipBlock: { cidr: "203.0.113.0/24" } }],
    monitoring: [{ namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "monitoring" } } }],
    egress: [
      { to: [{ podSelector: { matchLabels: { app: "collector" } } }], ports: [{ port: 4318, protocol: "TCP" }] },
    ],
  },
  serviceMonitor: { enabled: true, labels: { release: "prometheus" } },
};

export const WITHOUT_CUSTOM_RESOURCES: Values = {
  ...EVERYTHING,
  executor: { provider: "cuda", firstAccelerator: 4 },
  serviceMonitor: { enabled: false },
};

/** A second pool, such as one of CPUs beside one of GPUs: it joins the cluster of another release. */
export const EXECUTORS: Values = {
  auth: { insecure: true },
  nats: { url: "nats://t-tutti-nats:4222,nats://10.0.0.9" },
  node: { replicas: 0 },
  executor: { replicas: 2, firstAccelerator: 100 },
};

export const SETS: readonly (readonly [name: string, values: Values])[] = [
  ["a trial", TRIAL],
  ["everything", EVERYTHING],
  ["executors only", EXECUTORS],
];
