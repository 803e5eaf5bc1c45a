/** The ScaledObject of the Helm chart matches the gateway's answers, and has the fields that KEDA needs. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { ScalingAdvised } from "@tutti/protocol";
import { instant } from "@tutti/units";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { scalingAnswer } from "./scaling.ts";

const CHART = join(import.meta.dirname, "../../../infra/deploy/chart");

interface ScaledObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly scaleTargetRef: { readonly kind: string; readonly name: string };
    readonly minReplicaCount: number;
    readonly maxReplicaCount: number;
    readonly fallback: { readonly failureThreshold: number; readonly replicas: number };
    readonly triggers: readonly {
      readonly type: string;
      readonly metricType: string;
      readonly metadata: Readonly<Record<string, unknown>>;
    }[];
  };
}

/** The template with the chart's default values, and a name wherever it has another expression. */
function scaledObject(): ScaledObject {
  const text = readFileSync(join(CHART, "templates/executor.yaml"), "utf8");
  const values = parse(readFileSync(join(CHART, "values.yaml"), "utf8")) as {
    readonly executor: { readonly autoscaling: Readonly<Record<string, unknown>> };
  };
  const template = text.split(/^---$/m).find((document) => document.includes("kind: ScaledObject")) ?? "";
  const rendered = template
    .split("\n")
    .filter((line) => !/^\s*\{\{-.*\}\}$/.test(line))
    .join("\n")
    .replaceAll(/\{\{ \$values\.autoscaling\.(\w+) \}\}/g, (_, key: string) => String(values.executor.autoscaling[key]))
    .replaceAll(/\{\{.*?\}\}/g, "name");
  return parse(rendered) as ScaledObject;
}

const object = scaledObject();

/** Replicas that the horizontal pod autoscaler computes from a metric of type AverageValue. */
function replicasOf(advised: ScalingAdvised): number {
  const { metadata } = object.spec.triggers[0]!;
  const { body } = scalingAnswer(new URL(String(metadata["url"])).pathname, advised, advised.at)!;
  const replicas = Math.ceil(Number(body[String(metadata["valueLocation"])]) / Number(metadata["targetValue"]));
  return Math.max(object.spec.minReplicaCount, Math.min(object.spec.maxReplicaCount, replicas));
}

test("the chart has a ScaledObject whose trigger has what KEDA's metrics-api scaler requires, as strings", () => {
  expect([object.apiVersion, object.kind]).toEqual(["keda.sh/v1alpha1", "ScaledObject"]);
  const [trigger, ...more] = object.spec.triggers;
  expect([trigger?.type, trigger?.metricType, more]).toEqual(["metrics-api", "AverageValue", []]);
  for (const required of ["url", "valueLocation", "targetValue"])
    expect(typeof trigger?.metadata[required], required).toBe("string");
  expect(object.spec.fallback.replicas).toBeLessThanOrEqual(object.spec.maxReplicaCount);
  expect(object.spec.minReplicaCount).toBeGreaterThanOrEqual(1);
});

test("an executor a replica: the advice becomes replicas, within the bounds", () => {
  const advised: ScalingAdvised = { at: instant(1e6), advice: 2, gpus: 3, badRate: 0, idleShare: 0 };
  expect(replicasOf(advised)).toBe(5);
  expect(replicasOf({ ...advised, advice: -3 })).toBe(1);
  expect(replicasOf({ ...advised, advice: 100 })).toBe(object.spec.maxReplicaCount);
});
