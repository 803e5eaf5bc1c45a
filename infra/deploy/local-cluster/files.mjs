/** Settings of the parts: everything is in one folder, and on one bridge. */
import { join } from "node:path";

export const BRIDGE = "tutti0";
export const NODE_ADDRESS = "10.244.0.1";
export const PAUSE_IMAGE = "localhost/pause:1";
/** Volumes that may be claimed. */
export const VOLUMES = 12;
const POD_NETWORK = "10.244.0.0/24";
const NODE = "node";

/**
 * The parts, each by its name and arguments. Clients need the certificate that the API server writes.
 *
 * @param {string} folder
 * @param {string} kubeconfig
 * @returns {Record<"servers" | "clients", string[][]>}
 */
export function parts(folder, kubeconfig) {
  const key = join(folder, "service-accounts.pem");
  const certificates = join(folder, "certificates");
  return {
    servers: [
      ["etcd", "--data-dir", join(folder, "etcd"), "--unsafe-no-fsync", "--log-level", "warn"],
      [
        ...["apiserver", "--etcd-servers", "http://127.0.0.1:2379", "--advertise-address", NODE_ADDRESS],
        ...[
          "--cert-dir",
          certificates,
          "--token-auth-file",
          join(folder, "tokens.csv"),
          "--authorization-mode",
          "RBAC",
        ],
        ...["--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", key],
        ...["--service-account-signing-key-file", key, "--service-cluster-ip-range", "10.96.0.0/16"],
        ...["--kubelet-preferred-address-types", "InternalIP"],
      ],
    ],
    clients: [
      [
        ...["controller-manager", "--kubeconfig", kubeconfig, "--leader-elect=false"],
        ...["--service-account-private-key-file", key, "--root-ca-file", join(certificates, "apiserver.crt")],
        ...["--cert-dir", certificates],
      ],
      ["scheduler", "--kubeconfig", kubeconfig, "--leader-elect=false", "--cert-dir", certificates],
      [
        ...["kubelet", "--kubeconfig", kubeconfig, "--config", join(folder, "kubelet.yaml"), "--node-ip", NODE_ADDRESS],
        ...["--hostname-override", NODE, "--root-dir", join(folder, "kubelet"), "--cert-dir", certificates],
      ],
      [
        ...["proxy", "--kubeconfig", kubeconfig, "--proxy-mode", "iptables", "--cluster-cidr", POD_NETWORK],
        ...["--hostname-override", NODE, "--conntrack-max-per-core", "0"],
        ...["--conntrack-tcp-timeout-established", "0", "--conntrack-tcp-timeout-close-wait", "0"],
      ],
    ],
  };
}

/** @param {string} folder @param {string} token */
export const kubeconfig = (folder, token) => `apiVersion: v1
kind: Config
clusters:
  - name: local
    cluster:
      server: https://${NODE_ADDRESS}:6443
      certificate-authority: ${folder}/certificates/apiserver.crt
users: [{ name: admin, user: { token: ${token} } }]
contexts: [{ name: local, context: { cluster: local, user: admin } }]
current-context: local
`;

/**
 * Anyone who reaches the kubelet may do everything: only pods and this machine's root are on its network.
 *
 * @param {string} folder
 * @param {string} cgroup
 */
export const kubelet = (folder, cgroup) => `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: { anonymous: { enabled: true }, webhook: { enabled: false } }
authorization: { mode: AlwaysAllow }
containerRuntimeEndpoint: unix://${folder}/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /${cgroup}
failSwapOn: false
clusterDNS: [${NODE_ADDRESS}]
clusterDomain: cluster.local
resolvConf: ""
podLogsDir: ${folder}/logs
volumePluginDir: ${folder}/plugins
# The disk is the machine's, and others fill it.
imageGCHighThresholdPercent: 100
evictionHard: { memory.available: 100Mi }
`;

/** @param {string} folder @param {string} cniFolder */
export const containerd = (folder, cniFolder) => `version = 2
root = "${folder}/containerd"
state = "${folder}/containerd-state"
[grpc]
  address = "${folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${PAUSE_IMAGE}"
  netns_mounts_under_state_dir = true
  # For a machine whose root may not lower such scores.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "${cniFolder}"
    conf_dir = "${folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
`;

/** @param {string} folder */
export const cni = (folder) =>
  JSON.stringify({
    cniVersion: "1.0.0",
    name: "pods",
    plugins: [
      {
        ...{ type: "bridge", bridge: BRIDGE, isGateway: true, hairpinMode: true },
        ipam: { type: "host-local", dataDir: join(folder, "addresses"), ranges: [[{ subnet: POD_NETWORK }]],
          routes: [{ dst: "0.0.0.0/0" }] }, // prettier-ignore
      },
    ],
  });

/** @param {string} config */
export const dns = (config) => `.:53 {
  bind ${NODE_ADDRESS}
  errors
  ready ${NODE_ADDRESS}:8181
  kubernetes cluster.local {
    kubeconfig ${config}
    ttl 5
  }
}
`;

/** Volumes of this node, and the class of storage that claims get. @param {string} folder */
export const storage = (folder) =>
  [
    `apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: { name: local, annotations: { storageclass.kubernetes.io/is-default-class: "true" } }
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
`,
    ...Array.from(
      { length: VOLUMES },
      (_, i) => `apiVersion: v1
kind: PersistentVolume
metadata: { name: volume-${i} }
spec:
  capacity: { storage: 20Gi }
  accessModes: [ReadWriteOnce]
  storageClassName: local
  persistentVolumeReclaimPolicy: Retain
  local: { path: ${folder}/volumes/${i} }
  nodeAffinity:
    required: { nodeSelectorTerms: [{ matchExpressions: [{ key: kubernetes.io/hostname, operator: In, values: [${NODE}] }] }] }
`,
    ),
  ].join("---\n");
