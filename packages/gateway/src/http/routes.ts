/**
 * The paths of the Open Inference Protocol over HTTP, of Triton's extensions, and of KServe's V1 protocol. Pure: maps a
 * path to its operation.
 */
export type Operation =
  | "live"
  | "ready"
  | "serverMetadata"
  | "modelMetadata"
  | "modelReady"
  | "modelConfig"
  | "modelStatistics"
  | "allStatistics"
  | "infer"
  | "predict"
  | "modelList"
  | "repositoryIndex"
  | "repositoryLoad"
  | "repositoryUnload"
  | "memoryStatus"
  | "memoryRegion"
  | "memoryRegister"
  | "memoryUnregister"
  | "memoryUnregisterAll"
  | "cudaStatus"
  | "cudaRegister"
  | "cudaUnregister"
  | "cudaUnregisterAll"
  | "traceSettings"
  | "changeTraceSettings"
  | "modelTraceSettings"
  | "changeModelTraceSettings"
  | "logSettings"
  | "changeLogSettings"
  | "openapi"
  | "scaling"
  | "externalMetrics"
  | "externalMetric";

export interface RouteDeclaration {
  readonly method: "GET" | "POST";
  /** `{name}` stands for one segment, or for its beginning: `{name}:predict`. */
  readonly path: string;
  readonly operation: Operation;
}

const MEMORY = "/v2/systemsharedmemory";
const CUDA = "/v2/cudasharedmemory";
const EXTERNAL_METRICS = "/apis/external.metrics.k8s.io/v1beta1";

/** Routes with and without a version. */
const ofModel = (method: "GET" | "POST", path: string, operation: Operation): RouteDeclaration[] => [
  { method, path: `/v2/models/{model}${path}`, operation },
  { method, path: `/v2/models/{model}/versions/{version}${path}`, operation },
];

export const ROUTES: readonly RouteDeclaration[] = [
  { method: "GET", path: "/v2/health/live", operation: "live" },
  { method: "GET", path: "/v2/health/ready", operation: "ready" },
  { method: "GET", path: "/v2", operation: "serverMetadata" },
  { method: "GET", path: "/v2/models/stats", operation: "allStatistics" },
  ...ofModel("GET", "", "modelMetadata"),
  ...ofModel("GET", "/ready", "modelReady"),
  ...ofModel("GET", "/config", "modelConfig"),
  ...ofModel("GET", "/stats", "modelStatistics"),
  ...ofModel("POST", "/infer", "infer"),
  { method: "GET", path: "/v1/models", operation: "modelList" },
  { method: "GET", path: "/v1/models/{model}", operation: "modelReady" },
  { method: "POST", path: "/v1/models/{model}:predict", operation: "predict" },
  { method: "POST", path: "/v2/repository/index", operation: "repositoryIndex" },
  { method: "POST", path: "/v2/repository/models/{model}/load", operation: "repositoryLoad" },
  { method: "POST", path: "/v2/repository/models/{model}/unload", operation: "repositoryUnload" },
  { method: "GET", path: `${MEMORY}/status`, operation: "memoryStatus" },
  { method: "GET", path: `${MEMORY}/region/{region}/status`, operation: "memoryRegion" },
  { method: "POST", path: `${MEMORY}/region/{region}/register`, operation: "memoryRegister" },
  { method: "POST", path: `${MEMORY}/region/{region}/unregister`, operation: "memoryUnregister" },
  { method: "POST", path: `${MEMORY}/unregister`, operation: "memoryUnregisterAll" },
  { method: "GET", path: `${CUDA}/status`, operation: "cudaStatus" },
  { method: "POST", path: `${CUDA}/region/{region}/register`, operation: "cudaRegister" },
  { method: "POST", path: `${CUDA}/region/{region}/unregister`, operation: "cudaUnregister" },
  { method: "POST", path: `${CUDA}/unregister`, operation: "cudaUnregisterAll" },
  { method: "GET", path: "/v2/trace/setting", operation: "traceSettings" },
  { method: "POST", path: "/v2/trace/setting", operation: "changeTraceSettings" },
  { method: "GET", path: "/v2/models/{model}/trace/setting", operation: "modelTraceSettings" },
  { method: "POST", path: "/v2/models/{model}/trace/setting", operation: "changeModelTraceSettings" },
  { method: "GET", path: "/v2/logging", operation: "logSettings" },
  { method: "POST", path: "/v2/logging", operation: "changeLogSettings" },
  { method: "GET", path: "/openapi.json", operation: "openapi" },
  { method: "GET", path: "/scaling", operation: "scaling" },
  { method: "GET", path: EXTERNAL_METRICS, operation: "externalMetrics" },
  { method: "GET", path: `${EXTERNAL_METRICS}/namespaces/{namespace}/{metric}`, operation: "externalMetric" },
];

export interface RouteMatch {
  readonly operation: Operation;
  readonly params: Readonly<Record<string, string>>;
}

const COMPILED = ROUTES.map((route) => ({
  ...route,
  segments: route.path.split("/").slice(1),
}));
const suffixOf = (segment: string): string => segment.slice(segment.indexOf("}") + 1);
/** Ends of segments that name an operation, `:predict`: what has one is no name as a whole. */
const SUFFIXES = COMPILED.flatMap(({ segments }) => segments.filter((one) => one.startsWith("{")).map(suffixOf)).filter(
  (suffix) => suffix !== "",
);

/** Recent matches that are cached: most requests are for the same few paths. */
const MATCHES_KEPT = 512;
const PATH_KEPT_LENGTH_MAX = 256;
const matches = new Map<string, RouteMatch>();

/** Matches a path; HEAD is GET without a body. @returns "unknown-path", or the allowed methods of a known path */
export function matchRoute(
  method: string | undefined,
  path: string,
): RouteMatch | "unknown-path" | { readonly allowed: readonly string[] } {
  const key = `${method} ${path}`;
  const kept = matches.get(key);
  if (kept !== undefined) return kept;
  const match = findRoute(method, path);
  if (typeof match === "string" || "allowed" in match || key.length > PATH_KEPT_LENGTH_MAX) return match;
  if (matches.size >= MATCHES_KEPT) matches.clear();
  matches.set(key, match);
  return match;
}

function findRoute(
  method: string | undefined,
  path: string,
): RouteMatch | "unknown-path" | { readonly allowed: readonly string[] } {
  const segments = path.replace(/\/$/, "").split("/").slice(1);
  const allowed = new Set<string>();
  for (const route of COMPILED) {
    const params = fit(route.segments, segments);
    if (params === undefined) continue;
    if (route.method === method || (method === "HEAD" && route.method === "GET"))
      return { operation: route.operation, params };
    allowed.add(route.method);
  }
  return allowed.size === 0 ? "unknown-path" : { allowed: [...allowed] };
}

function fit(pattern: readonly string[], segments: readonly string[]): Record<string, string> | undefined {
  if (pattern.length !== segments.length) return undefined;
  const params: Record<string, string> = {};
  for (let i = 0; i < pattern.length; i++) {
    const [wanted, given] = [pattern[i]!, segments[i]!];
    if (wanted.startsWith("{")) {
      const end = wanted.indexOf("}");
      const suffix = suffixOf(wanted);
      if (suffix === "" && SUFFIXES.some((other) => given.endsWith(other))) return undefined;
      const text = given.endsWith(suffix) ? decoded(given.slice(0, given.length - suffix.length)) : undefined;
      if (text === undefined || text === "") return undefined;
      params[wanted.slice(1, end)] = text;
    } else if (wanted !== given) return undefined;
  }
  return params;
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
