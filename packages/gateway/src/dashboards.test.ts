/** Dashboards of infra/dashboards: they match their generator, and query existing metrics only. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { GatewayScene } from "./testing/gateway-scene.ts";

const ROOT = join(import.meta.dirname, "../../..");
const FOLDER = join(ROOT, "infra/dashboards");
const read = (name: string): string => readFileSync(join(FOLDER, name), "utf8");

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets: readonly { readonly expr: string; readonly refId: string; readonly legendFormat: string }[];
}
interface Dashboard {
  readonly uid: string;
  readonly schemaVersion: number;
  readonly panels: readonly Panel[];
}
interface Rule {
  readonly alert?: string;
  readonly record?: string;
  readonly expr: string;
  readonly labels?: { readonly severity: string };
  readonly annotations?: { readonly summary: string; readonly description: string; readonly runbook: string };
}

/** Panels with a query; a row is a heading. */
const panelsOf = ({ panels }: Dashboard): Panel[] => panels.filter(({ type }) => type !== "row");

const dashboard = JSON.parse(read("tutti-overview.json")) as Dashboard;
const rules = (parse(read("tutti-rules.yaml")) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  (group) => group.rules,
);

test("the files are what the code makes", () => {
  execFileSync(process.execPath, [join(FOLDER, "main.ts"), "--check"], { stdio: "pipe" });
});

/** Names of all metrics, with the suffixes of histograms and the metrics that Prometheus itself makes. */
async function served(): Promise<Set<string>> {
  const scene = await GatewayScene.open();
  const text = await (await fetch(`${scene.addresses.metrics}/metrics`)).text();
  await scene.close();
  const names = new Set(["up"]);
  for (const [, name = "", type] of text.matchAll(/^# TYPE (\S+) (\w+)$/gm))
    for (const suffix of type === "histogram" ? ["_bucket", "_sum", "_count"] : [""]) names.add(name + suffix);
  return names;
}
const metricsOf = (expression: string): string[] => {
  const bare = expression.replaceAll(/\{[^}]*\}|\[[^\]]*\]|"[^"]*"|\b(by|on) \([^)]*\)/g, "");
  return [...bare.matchAll(/\b(?:tutti_\w+|nv_\w+|up\b|tutti:\S+?(?=[\s)]|$))/g)].map(([name]) => name);
};

test("every metric that a panel or a rule asks for is there", async () => {
  const names = await served();
  for (const { record } of rules) if (record !== undefined) names.add(record);
  const asked = [...panelsOf(dashboard).flatMap(({ targets }) => targets), ...rules].map(({ expr }) => expr);
  for (const expression of asked) {
    const metrics = metricsOf(expression);
    expect(metrics.length, expression).toBeGreaterThan(0);
    for (const metric of metrics) expect(names, `${metric} in ${expression}`).toContain(metric);
  }
  expect(metricsOf('sum by (le, a) (rate(tutti_x_total{a="b"}[5m])) > tutti:bad:ratio_rate5m')).toEqual([
    "tutti_x_total",
    "tutti:bad:ratio_rate5m",
  ]);
});

test("the dashboard is one that Grafana imports: panels with a place of their own, a source, a text and a query", () => {
  expect([dashboard.uid, dashboard.schemaVersion]).toEqual(["tutti-overview", 39]);
  expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
  expect(dashboard.panels.filter(({ type }) => type === "row").map(({ title }) => title)).toEqual(["Background jobs"]);
  for (const { title, description, type, gridPos, targets } of panelsOf(dashboard)) {
    expect(["stat", "timeseries"]).toContain(type);
    expect(description.length, title).toBeGreaterThan(20);
    expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
    expect(targets.map(({ refId }) => refId)).toEqual(["A", "B", "C"].slice(0, targets.length));
    for (const { legendFormat } of targets) expect(legendFormat).not.toBe("");
  }
  const overlap = (a: Panel["gridPos"], b: Panel["gridPos"]): boolean =>
    a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
  dashboard.panels.forEach((one, i) => {
    for (const other of dashboard.panels.slice(i + 1))
      expect(overlap(one.gridPos, other.gridPos), `${one.title}, ${other.title}`).toBe(false);
  });
});

test("every alert says whom it wakes, what is wrong, what to do, and where to read on", () => {
  const alerts = rules.filter(({ alert }) => alert !== undefined);
  expect(alerts.length).toBeGreaterThanOrEqual(8);
  for (const { alert, labels, annotations } of alerts) {
    expect(["page", "ticket"], alert).toContain(labels?.severity);
    expect(annotations?.summary.length, alert).toBeGreaterThan(20);
    expect(annotations?.description.length, alert).toBeGreaterThan(20);
    expect(existsSync(join(ROOT, annotations!.runbook.split("#", 1)[0]!)), alert).toBe(true);
  }
});
