{{- /* Name of all objects: the release's, with "tutti" in it. */ -}}
{{- define "tutti.name" -}}
{{- $base := default .Release.Name .Values.nameOverride -}}
{{- ternary $base (printf "%s-tutti" $base) (contains "tutti" $base) | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "tutti.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: tutti
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- /* Selector of one component's pods; arguments: root, component. */ -}}
{{- define "tutti.selector" -}}
app.kubernetes.io/name: tutti
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- /* Selector across releases of a namespace: executors may be a release of their own. */ -}}
{{- define "tutti.peer" -}}
podSelector:
  matchLabels:
    app.kubernetes.io/name: tutti
    app.kubernetes.io/component: {{ . }}
{{- end -}}

{{- define "tutti.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{- define "tutti.natsUrl" -}}
{{- if .Values.nats.url -}}
{{- .Values.nats.url -}}
{{- else -}}
{{- $urls := list -}}
{{- range $i := until (int .Values.nats.replicas) -}}
{{- $urls = append $urls (printf "nats://%s:4222" (include "tutti.natsHost" (list $ $i))) -}}
{{- end -}}
{{- join "," $urls -}}
{{- end -}}
{{- end -}}

{{- define "tutti.natsHost" -}}
{{- $root := index . 0 -}}
{{- $name := include "tutti.name" $root -}}
{{- printf "%s-nats-%d.%s-nats.%s.svc.%s" $name (int (index . 1)) $name $root.Release.Namespace $root.Values.clusterDomain -}}
{{- end -}}

{{- /* Where the secret's files are in every pod of ours. */ -}}
{{- define "tutti.authFolder" -}}/etc/tutti/auth{{- end -}}

{{- define "tutti.credential" -}}
{{- printf "%s.%s" (index . 1) (ternary "creds" "nk" (eq (index . 0).Values.auth.kind "jwt")) -}}
{{- end -}}

{{- define "tutti.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65534
runAsGroup: 65534
fsGroup: 65534
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "tutti.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{- /* Scheduling of one component's pods; arguments: root, component, its values. */ -}}
{{- define "tutti.scheduling" -}}
{{- $root := index . 0 -}}
topologySpreadConstraints:
{{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: {{ ternary $root.Values.spread "ScheduleAnyway" (eq $key "kubernetes.io/hostname") }}
    labelSelector:
      matchLabels:
        {{- include "tutti.selector" (list $root (index $ 1)) | nindent 8 }}
    # Pods of an update spread among themselves.
    matchLabelKeys: [controller-revision-hash]
{{- end }}
{{- with (index . 2).nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with (index . 2).tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with (index . 2).affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* Probes of a role (packages/host/src/role/probes.ts): /live while its event loop turns, /ready while it serves. */ -}}
{{- define "tutti.probes" -}}
startupProbe:
  httpGet: { path: /live, port: health }
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: { path: /live, port: health }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: { path: /ready, port: health }
  periodSeconds: 2
  timeoutSeconds: 5
{{- end -}}

{{- /* Volumes of a role's pod; arguments: root, files of the secret, size of the data's. A pod that exceeds one is evicted. */ -}}
{{- define "tutti.volumes" -}}
{{- $root := index . 0 -}}
- name: config
  configMap: { name: {{ include "tutti.name" $root }}-config }
- name: data
  emptyDir: { sizeLimit: {{ index . 2 }} }
- name: tmp
  emptyDir: { sizeLimit: 1Gi }
{{- if $root.Values.auth.secret }}
- name: auth
  secret:
    secretName: {{ $root.Values.auth.secret }}
    defaultMode: 288 # 0440: readable by the pod's group
    items:
      {{- range index . 1 }}
      - { key: {{ . }}, path: {{ . }} }
      {{- end }}
{{- end }}
{{- end -}}

{{- define "tutti.mounts" -}}
- { name: config, mountPath: /etc/tutti/tutti.yaml, subPath: tutti.yaml, readOnly: true }
- { name: data, mountPath: /data }
- { name: tmp, mountPath: /tmp }
{{- if .Values.auth.secret }}
- { name: auth, mountPath: {{ include "tutti.authFolder" . }}, readOnly: true }
{{- end }}
{{- end -}}

{{- /* Variables of every pod of ours. /tmp is a volume in which any user may rename folders; none is trusted there. */ -}}
{{- define "tutti.env" -}}
- { name: TUTTI_LINKS, value: /data/links }
{{- end -}}

{{- /* Values that contradict each other: one line that says what to set. */ -}}
{{- define "tutti.validate" -}}
{{- $values := .Values -}}
{{- if and $values.auth.insecure $values.auth.secret -}}
{{- fail "auth.insecure=true contradicts auth.secret: set one of them" -}}
{{- end -}}
{{- if not (or $values.auth.insecure $values.auth.secret) -}}
{{- fail "set auth.secret (the credentials that `tutti auth init` makes), or auth.insecure=true where everybody who reaches the pods may do everything" -}}
{{- end -}}
{{- range $name := list "tls" "apiKeys" -}}
{{- if and (index $values.auth $name) (not $values.auth.secret) -}}
{{- fail (printf "auth.%s=true needs auth.secret, whose files it reads" $name) -}}
{{- end -}}
{{- end -}}
{{- if and $values.auth.secret $values.node.replicas (not (or $values.auth.apiKeys $values.config.jwks)) -}}
{{- fail "set auth.apiKeys=true (api-keys.json in auth.secret, by `tutti auth key add`) or config.jwks: the gateway must know who asks over HTTP and gRPC" -}}
{{- end -}}
{{- if and $values.gateway.repository (not $values.auth.secret) -}}
{{- fail "gateway.repository=true needs auth.secret with the operator's credentials (admin.nk)" -}}
{{- end -}}
{{- if and (not $values.nats.url) (eq (int $values.nats.replicas) 2) -}}
{{- fail "nats.replicas=2 survives no loss: 1 or 3" -}}
{{- end -}}
{{- if not $values.nats.url -}}
{{- /* Servers of a cluster take the streams that a server alone has made for orphans, and delete them. */ -}}
{{- $servers := dig "spec" "replicas" 0 (lookup "apps/v1" "StatefulSet" .Release.Namespace (printf "%s-nats" (include "tutti.name" .))) | int -}}
{{- $count := int $values.nats.replicas -}}
{{- if and $servers (ne (eq $servers 1) (eq $count 1)) -}}
{{- fail (printf "nats.replicas=%d, but this release has %d: going from one server to several, or back, loses what is stored. Install another release, and load the models there" $count $servers) -}}
{{- end -}}
{{- end -}}
{{- if not (or $values.node.replicas $values.nats.url) -}}
{{- fail "node.replicas=0 needs nats.url: executors of their own join the cluster of another release" -}}
{{- end -}}
{{- if and $values.executor.autoscaling.enabled (not $values.node.replicas) -}}
{{- fail "executor.autoscaling.enabled=true needs nodes in the same release, which answer KEDA: set executor.replicas" -}}
{{- end -}}
{{- if and $values.networkPolicy.enabled $values.node.replicas (ne $values.gateway.service.type "ClusterIP") -}}
{{- $isOpen := false -}}
{{- range $values.networkPolicy.clients -}}
{{- $isOpen = or $isOpen (hasKey . "ipBlock") -}}
{{- end -}}
{{- if not $isOpen -}}
{{- fail (printf "gateway.service.type=%s needs an ipBlock in networkPolicy.clients, such as [{ipBlock: {cidr: 203.0.113.0/24}}]: else nobody outside the cluster is let through" $values.gateway.service.type) -}}
{{- end -}}
{{- end -}}
{{- with $values.executor.autoscaling -}}
{{- if and .enabled (lt (int .max) (int .min)) -}}
{{- fail (printf "executor.autoscaling.max=%d is less than min=%d" (int .max) (int .min)) -}}
{{- end -}}
{{- if and .enabled (gt (int .fallback) (int .max)) -}}
{{- fail (printf "executor.autoscaling.fallback=%d is more than max=%d" (int .fallback) (int .max)) -}}
{{- end -}}
{{- end -}}
{{- if and $values.networkPolicy.enabled (not $values.networkPolicy.monitoring) (or $values.serviceMonitor.enabled $values.executor.autoscaling.enabled) -}}
{{- fail "set networkPolicy.monitoring to the namespaces of Prometheus and KEDA, such as [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: keda}}}]: they read port 8002" -}}
{{- end -}}
{{- end -}}
