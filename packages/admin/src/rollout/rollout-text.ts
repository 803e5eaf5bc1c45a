import type { ListedModel } from "@tutti/client/registries";
import { type Route, type RouteState, percentOf, publicNameOf, stateOf, versionsOf } from "@tutti/protocol";
import { formatDuration, micros, printable } from "@tutti/units";
import { renderTable } from "../table.ts";
import type { RolloutReport, ShadowReport } from "./rollout-report.ts";

const HEADINGS = ["version", "share", "state", "offered/s", "good/s", "bad", "p99", "alone"];

export function renderRollout(report: RolloutReport): string {
  const { name, versions, shadow, ramp, advice, history } = report;
  const rows = versions.map((one) => [
    `${name}/${one.version}${one.isDefault ? " (default)" : ""}`,
    percentText(one.percent / 100),
    one.state,
    whole(one.offered),
    whole(one.good),
    one.badRate === undefined ? "-" : percentText(one.badRate),
    one.p99Us === 0 ? "-" : durationText(one.p99Us),
    one.aloneUs === undefined ? "-" : durationText(one.aloneUs),
  ]);
  const lines = [renderTable(HEADINGS, rows)];
  if (ramp !== undefined)
    lines.push(
      `Version ${ramp.version} grows from ${ramp.percent} % to ${ramp.goal} % within ${durationText(ramp.overUs)}; back at more than ${percentText(ramp.badMax)} bad${ramp.mismatchMax < 1 ? ` or ${percentText(ramp.mismatchMax)} different` : ""}.`,
    );
  if (shadow !== undefined) lines.push(shadowLine(shadow));
  lines.push(...advice.map((text) => `Advice: ${text}.`));
  const last = history.at(-1);
  if (last !== undefined)
    lines.push(`Since ${new Date(last.at / 1_000).toISOString()}, by ${last.by}: ${printable(last.why)}`);
  return lines.join("\n");
}

/** Said where a rollout begins while its version is the shadow too, for its differences could be taken for a limit. */
export function shadowNote({ ramp, shadow }: Pick<RouteState, "ramp" | "shadow">): string {
  if (ramp === undefined || shadow?.version !== ramp.version || ramp.mismatchMax < 1) return "";
  return `version ${ramp.version} is the shadow too: answers that differ don't turn the rollout back, which --max-mismatch 0% would\n`;
}

function shadowLine({
  version,
  percent,
  compared,
  differ,
  mismatchRate,
  differenceMost,
  left,
  aloneUs,
}: ShadowReport): string {
  const head = `Version ${version} shadows ${percent} % of the others' requests`;
  if (mismatchRate === undefined) return `${head}; nothing is compared yet (copies run on idle accelerators).`;
  const most = differenceMost >= Number.MAX_VALUE ? "beyond all numbers" : differenceMost.toPrecision(3);
  const alone = aloneUs === undefined ? "" : `, ${durationText(aloneUs)} alone`;
  return `${head}: ${compared} compared, ${differ} differ (${percentText(mismatchRate)}, by ${most} at most)${alone}; ${left} left out.`;
}

/** Lines for `tutti status`: each model with shared requests, and each version that can't have its share. */
export function routeLines(routes: readonly Route[], models: readonly ListedModel[]): string[] {
  return routes.flatMap((route) => {
    const state = stateOf(route);
    const stateOfVersion = (version: string): string =>
      models.find(({ spec }) => publicNameOf(spec.name) === route.name && spec.version === version)?.status?.state ??
      "not loaded";
    const shares = versionsOf(state).map((version) => `${percentOf(state, version)} % to version ${version}`);
    const fallen = versionsOf(state).filter((one) => one !== state.default && stateOfVersion(one) !== "ready");
    const more = [
      ...(state.ramp === undefined ? [] : [`growing to ${state.ramp.steps.at(-1)} %`]),
      ...(state.shadow === undefined ? [] : [`version ${state.shadow.version} shadows ${state.shadow.percent} %`]),
    ];
    return [
      `${route.name}: ${[shares.join(", "), ...more].join("; ")}`,
      ...fallen.map(
        (version) =>
          `${route.name}: version ${version} is ${stateOfVersion(version)}, so its ${percentOf(state, version)} % go to version ${state.default}`,
      ),
      ...(state.by === "planner" ? [`${route.name}: ${printable(state.why)}`] : []),
    ];
  });
}

const percentText = (share: number): string => `${Number((share * 100).toFixed(2))} %`;
const durationText = (us: number): string => formatDuration(micros(Math.round(us)));
const whole = (value: number | undefined): string => (value === undefined ? "-" : value.toFixed(0));
