/** A metric of the cluster: its declaration, and the sources of its values. */
import type { CatalogModel } from "@tutti/actors";
import type { Heartbeat, Role, Route, ScalingAdvised, StatsReported } from "@tutti/protocol";
import type { GpuId } from "@tutti/units";
import type { GpuTotals, ModelTotals } from "./cluster-figures.ts";
import type { PartReport, PartTotals } from "./part-totals.ts";

/** Sources of the metrics. */
export interface ClusterView {
  readonly models: () => readonly CatalogModel[];
  readonly totalsOf: (model: string) => Readonly<ModelTotals> | undefined;
  /** The same of its jobs; undefined: it had none. */
  readonly jobsOf: (model: string) => Readonly<ModelTotals> | undefined;
  readonly gpus: () => ReadonlyMap<GpuId, Readonly<GpuTotals>>;
  readonly living: () => Iterable<StatsReported>;
  readonly peersOf: (role: Role) => Iterable<Heartbeat>;
  readonly takeovers: () => ReadonlyMap<string, number>;
  /** Undefined without recent advice of a planner. */
  readonly advised: () => ScalingAdvised | undefined;
  readonly routes: () => readonly Route[];
  readonly parts: (kind: PartReport["kind"]) => readonly Readonly<PartTotals>[];
}

type Labels = Readonly<Record<string, string>>;
export type Row = readonly [Labels, number];
export interface Declaration {
  readonly type: "counter" | "gauge";
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
  readonly rows: () => Iterable<Row>;
}
