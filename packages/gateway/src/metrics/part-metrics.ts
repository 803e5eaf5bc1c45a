/** Metrics of families' variants, and of pipelines and their stages, which a model's own figures do not separate. */
import type { ClusterView, Declaration, Row } from "./declaration.ts";
import type { PartReport, PartTotals } from "./part-totals.ts";

type Kind = PartReport["kind"];
type Totals = Readonly<PartTotals>;

const LABELS: Readonly<Record<Kind, readonly string[]>> = {
  variant: ["family", "model"],
  pipeline: ["pipeline"],
  stage: ["pipeline", "stage"],
};
const OF_WHAT: Readonly<Record<Kind, string>> = {
  variant: "a variant of a family",
  pipeline: "a pipeline, all of it",
  stage: "a stage of a pipeline",
};

export const partMetrics = (view: ClusterView): Declaration[] =>
  (["variant", "pipeline", "stage"] as const).flatMap((kind) => ofKind(view, kind));

function ofKind(view: ClusterView, kind: Kind): Declaration[] {
  const labelsOf = ({ of, name }: Totals): Record<string, string> => {
    const values = kind === "pipeline" ? [name] : [of, name];
    return Object.fromEntries(LABELS[kind].map((label, i) => [label, values[i]!]));
  };
  const counter = (suffix: string, help: string, read: (totals: Totals) => number): Declaration => ({
    type: "counter",
    name: `tutti_${kind}_${suffix}`,
    help: `${help} ${OF_WHAT[kind]}`,
    labels: LABELS[kind],
    rows: () => view.parts(kind).map((totals): Row => [labelsOf(totals), read(totals)]),
  });
  const wholly =
    kind === "stage" ? "Requests to a whole pipeline, refused because of" : "Requests refused, by cause, of";
  return [
    counter("requests_total", "Requests to", ({ offered }) => offered),
    counter("good_total", "Requests answered in time by", ({ ok, late }) => ok - late),
    counter("late_total", "Requests answered late by", ({ late }) => late),
    {
      type: "counter",
      name: `tutti_${kind}_refused_total`,
      help: `${wholly} ${OF_WHAT[kind]}`,
      labels: [...LABELS[kind], "cause"],
      rows: () =>
        view
          .parts(kind)
          .flatMap((totals) =>
            [...totals.refused].map(([cause, count]): Row => [{ ...labelsOf(totals), cause }, count]),
          ),
    },
  ];
}
