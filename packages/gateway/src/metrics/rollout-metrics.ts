/** Metrics of rollouts: the versions' shares, and the results of their shadows. */
import { type Route, percentOf, publicNameOf, splitModelName, stateOf, versionsOf } from "@tutti/protocol";
import type { ClusterView, Declaration, Row } from "./declaration.ts";

export function rolloutMetrics(view: ClusterView): Declaration[] {
  const ofShadows = (figure: string, join: (a: number, b: number) => number) => (): Row[] => {
    const byName = new Map<string, number>();
    for (const { role, perThread = [] } of view.living()) {
      if (role !== "executor") continue;
      for (const { name, figures } of perThread)
        if (figures[figure] !== undefined) byName.set(name, join(byName.get(name) ?? 0, figures[figure]));
    }
    return [...byName].flatMap(([name, value]) => {
      const model = view.models().find(({ spec }) => spec.name === name);
      return model === undefined ? [] : [[{ model: publicNameOf(name), version: model.spec.version }, value] as const];
    });
  };
  const labels = ["model", "version"];
  const sum = (a: number, b: number): number => a + b;
  return [
    {
      ...{ type: "gauge", name: "tutti_version_share_ratio", labels },
      help: "Share of a model's requests that its route gives to a version; only of models whose requests are shared",
      rows: () => view.routes().flatMap(sharesOf),
    },
    {
      ...{ type: "gauge", name: "tutti_shadow_compared", labels },
      help: "Copies of requests that ran on a shadow and were compared, since the executors that live began",
      rows: ofShadows("shadowCompared", sum),
    },
    {
      ...{ type: "gauge", name: "tutti_shadow_mismatched", labels },
      help: "Those of them whose answers differ",
      rows: ofShadows("shadowDiffer", sum),
    },
    {
      ...{ type: "gauge", name: "tutti_shadow_difference", labels },
      help: "The largest absolute difference of two numbers in them",
      rows: ofShadows("shadowDifferenceMost", Math.max),
    },
  ];
}

const sharesOf = (route: Route): Row[] =>
  versionsOf(stateOf(route)).map((version) => [
    { model: splitModelName(route.name).name, version },
    percentOf(stateOf(route), version) / 100,
  ]);
