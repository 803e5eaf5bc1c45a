import type { ListedModel } from "@tutti/client/registries";
import { type Route, type StatsReported, percentOf, publicNameOf, stateOf } from "@tutti/protocol";
import { modelNumberOf } from "@tutti/units";
import { type ClusterView, latestOf, rateOf, sumOf } from "../operator/cluster-view.ts";

export interface VersionReport {
  readonly version: string;
  readonly isDefault: boolean;
  /** Share of the requests that name no version; while the version can't be served, it gets none of them. */
  readonly percent: number;
  readonly state: string;
  readonly reason: string;
  /** Per second; undefined until rates are known. */
  readonly offered: number | undefined;
  readonly good: number | undefined;
  /** Share of refused or late requests in the last seconds. */
  readonly badRate: number | undefined;
  /** Latency from arrival to answer. */
  readonly p99Us: number;
  /** Latency of one request alone, as profiled. */
  readonly aloneUs: number | undefined;
}

export interface ShadowReport {
  readonly version: string;
  readonly percent: number;
  /** Shadow copies compared with an answered request, since the executors started. */
  readonly compared: number;
  readonly differ: number;
  readonly mismatchRate: number | undefined;
  readonly differenceMost: number;
  /** Copies that were dropped for lack of idle time or room. */
  readonly left: number;
  readonly aloneUs: number | undefined;
}

export interface RolloutReport {
  readonly name: string;
  readonly default: string;
  readonly versions: readonly VersionReport[];
  readonly shadow?: ShadowReport;
  readonly ramp?: {
    readonly version: string;
    readonly percent: number;
    readonly goal: number;
    readonly overUs: number;
    readonly badMax: number;
    readonly mismatchMax: number;
  };
  /** Problems and next steps for the operator, in sentences. */
  readonly advice: readonly string[];
  /** Newest last. */
  readonly history: readonly { readonly at: number; readonly by: string; readonly why: string }[];
}

const GIVEN_UP = ["refused", "failed", "quarantined"];

/** The report of all versions of a model. @param route - undefined: requests are not shared */
export function rolloutOf(
  name: string,
  listed: readonly ListedModel[],
  route: Route | undefined,
  view: ClusterView,
): RolloutReport {
  const models = listed.filter(({ spec }) => publicNameOf(spec.name) === name);
  const state = route === undefined ? undefined : stateOf(route);
  const first = models.find(({ spec }) => spec.name === name) ?? models[0];
  const otherwise = state?.default ?? first?.spec.version ?? "";
  const versions = models.map((model) => versionOf(model, view, { state, otherwise }));
  const ramp = state?.ramp;
  return {
    name,
    default: otherwise,
    versions,
    ...(state?.shadow !== undefined && { shadow: shadowOf(state.shadow, models, view) }),
    ...(ramp !== undefined && {
      ramp: {
        ...{ version: ramp.version, percent: percentOf(state!, ramp.version), goal: ramp.steps.at(-1)! },
        ...{ overUs: ramp.over, badMax: ramp.badMax, mismatchMax: ramp.mismatchMax },
      },
    }),
    advice: state === undefined ? [] : adviceOf(name, versions, state.slices, otherwise),
    history: (route?.states ?? []).map(({ at, by, why }) => ({ at, by, why })),
  };
}

/** Advice on versions with a share, including versions that are no longer loaded. */
function adviceOf(
  name: string,
  versions: readonly VersionReport[],
  slices: readonly { readonly version: string }[],
  otherwise: string,
): string[] {
  const advice = versions
    .filter(({ percent, isDefault, state }) => percent > 0 && !isDefault && state !== "ready")
    .map(({ version, percent, state, reason }) =>
      [
        `version ${version} is ${state}${reason === "" ? "" : ` (${reason})`}: its ${percent} % go to version ${otherwise}`,
        GIVEN_UP.includes(state) ? `; \`tutti rollout ${name} --back\` takes its share away` : "",
      ].join(""),
    );
  for (const version of new Set(slices.map((slice) => slice.version)))
    if (!versions.some((one) => one.version === version))
      advice.push(`version ${version} has a share and is not loaded: its share goes to version ${otherwise}`);
  const all = versions.find(({ percent, isDefault }) => percent === 100 && !isDefault);
  if (all !== undefined)
    advice.push(
      `version ${all.version} has everything, and version ${otherwise} stands by; \`tutti rollout ${name} --default ${all.version}\` ends that`,
    );
  return advice;
}

function versionOf(
  { spec, status }: ListedModel,
  view: ClusterView,
  { state, otherwise }: { readonly state: ReturnType<typeof stateOf> | undefined; readonly otherwise: string },
): VersionReport {
  const { number, version } = spec;
  const ingresses = view.actors().filter(({ beat }) => beat.role === "ingress");
  const rate = (...names: string[]): number | undefined =>
    sumOf(ingresses.map((actor) => rateOf(actor, (stats) => figureOf(stats, number, names))));
  const [offered, ok, bad] = [rate("offered"), rate("ok"), rate("late", "refused")];
  const late = rate("late") ?? 0;
  return {
    ...{ version, isDefault: version === otherwise },
    percent: state === undefined ? (version === otherwise ? 100 : 0) : percentOf(state, version),
    ...{ state: status?.state ?? "waiting", reason: status?.reason ?? "" },
    ...{ offered, good: ok === undefined ? undefined : Math.max(0, ok - late) },
    badRate: ok === undefined || bad === undefined || ok - late + bad <= 0 ? undefined : bad / (ok - late + bad),
    p99Us: Math.max(0, ...ingresses.map((actor) => figureOf(latestOf(actor), number, ["p99Us"]))),
    aloneUs: status?.profiles[0]?.[0]?.latency,
  };
}

function shadowOf(
  { version, percent }: { readonly version: string; readonly percent: number },
  models: readonly ListedModel[],
  view: ClusterView,
): ShadowReport {
  const number = models.find(({ spec }) => spec.version === version)?.spec.number ?? -1;
  const executors = view.actors().filter(({ beat }) => beat.role === "executor");
  const each = (name: string): number[] => executors.map((actor) => figureOf(latestOf(actor), number, [name]));
  const total = (name: string): number => each(name).reduce((sum, value) => sum + value, 0);
  const [compared, differ] = [total("shadowCompared"), total("shadowDiffer")];
  return {
    ...{ version, percent, compared, differ },
    mismatchRate: compared === 0 ? undefined : differ / compared,
    differenceMost: Math.max(0, ...each("shadowDifferenceMost")),
    left: total("shadowLeft"),
    aloneUs: total("shadowRan") === 0 ? undefined : total("shadowRunUs") / total("shadowRan"),
  };
}

const figureOf = (stats: StatsReported | undefined, modelNumber: number, names: readonly string[]): number =>
  (stats?.perThread ?? [])
    .filter(({ thread }) => modelNumberOf(thread) === modelNumber)
    .reduce((sum, { figures }) => names.reduce((all, name) => all + (figures[name] ?? 0), sum), 0);
