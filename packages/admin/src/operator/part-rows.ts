/** Rows for variants of families, pipelines and their stages: figures that no model's row has. */
import { type StatsReported, isModelName } from "@tutti/protocol";
import { renderTable } from "../table.ts";
import { type HeardActor, latestOf, rateOf } from "./cluster-view.ts";
import { whole } from "./top-table.ts";

type Part = NonNullable<StatsReported["perPart"]>[number];

export interface PartRow {
  readonly name: string;
  /** Per second; undefined until rates are known. */
  readonly offered: number | undefined;
  /** Answered in time, per second. */
  readonly good: number | undefined;
  readonly late: number | undefined;
  /** By cause. For a stage: requests to the whole pipeline that were refused because of it. */
  readonly refused: Readonly<Record<string, number>>;
}
export interface VariantRow extends PartRow {
  readonly family: string;
}
export interface PipelineRow extends PartRow {
  readonly stages: readonly PartRow[];
}

const REFUSED = "refused.TUTTI_";

export function variantRows(ingresses: readonly HeardActor[]): VariantRow[] {
  return partsOf(ingresses, "variant").map((part) => ({ family: part.of, ...rowOf(ingresses, part) }));
}

export function pipelineRows(ingresses: readonly HeardActor[]): PipelineRow[] {
  const stages = partsOf(ingresses, "stage");
  // A pipeline that never answered is known by its stages only.
  const names = [...new Set([...partsOf(ingresses, "pipeline"), ...stages].map(({ of }) => of))].sort();
  return names.map((of) => ({
    ...rowOf(ingresses, { kind: "pipeline", of, name: of }),
    stages: stages.filter((stage) => stage.of === of).map((stage) => rowOf(ingresses, stage)),
  }));
}

type PartId = Pick<Part, "kind" | "of" | "name">;

/** Each part once, in order of first appearance: stages in the order in which they run. */
function partsOf(ingresses: readonly HeardActor[], kind: Part["kind"]): PartId[] {
  const known = new Map<string, PartId>();
  for (const actor of ingresses)
    for (const part of latestOf(actor)?.perPart ?? [])
      if (part.kind === kind && isModelName(part.of) && isModelName(part.name))
        known.set(`${part.of} ${part.name}`, part);
  return [...known.values()];
}

function rowOf(ingresses: readonly HeardActor[], { kind, of, name }: PartId): PartRow {
  const figuresOf = (stats: StatsReported): Part["figures"] =>
    stats.perPart?.find((part) => part.kind === kind && part.of === of && part.name === name)?.figures ?? {};
  const rate = (figure: string): number | undefined => {
    const rates = ingresses.map((actor) => rateOf(actor, (stats) => figuresOf(stats)[figure] ?? 0));
    const told = rates.filter((one) => one !== undefined);
    return told.length === 0 ? undefined : told.reduce((sum, one) => sum + one, 0);
  };
  const causes = new Set(
    ingresses.flatMap((actor) => {
      const stats = latestOf(actor);
      return stats === undefined ? [] : Object.keys(figuresOf(stats)).filter((figure) => figure.startsWith(REFUSED));
    }),
  );
  const [ok, late] = [rate("ok"), rate("late")];
  return {
    name,
    offered: rate("offered"),
    good: ok === undefined ? undefined : ok - (late ?? 0),
    late,
    refused: Object.fromEntries(
      [...causes]
        .map((cause) => [cause.slice(REFUSED.length), rate(cause) ?? 0] as const)
        .filter(([, some]) => some > 0),
    ),
  };
}

/** The tables of both; empty if there are none. */
export function renderParts(variants: readonly VariantRow[], pipelines: readonly PipelineRow[]): string[] {
  const cells = ({ offered, good, refused }: PartRow): string[] => [
    whole(offered),
    whole(good),
    whole(Object.values(refused).reduce((sum, one) => sum + one, 0)),
    Object.entries(refused)
      .map(([cause, perSecond]) => `${cause} ${whole(perSecond)}`)
      .join(", "),
  ];
  const columns = ["offered/s", "good/s", "refused/s", "refused because"];
  const tables: string[] = [];
  if (variants.length > 0)
    tables.push(
      "",
      renderTable(
        ["family", "variant", ...columns],
        variants.map((row) => [row.family, row.name, ...cells(row)]),
      ),
    );
  if (pipelines.length > 0)
    tables.push(
      "",
      renderTable(
        ["pipeline", "stage", ...columns],
        pipelines.flatMap((row) => [
          [row.name, "", ...cells(row)],
          ...row.stages.map((stage) => ["", stage.name, ...cells(stage)]),
        ]),
      ),
    );
  return tables;
}
