/**
 * Static packing, dynamic scheduling in sub-clusters, and parts of accelerators, each on the same workloads: which
 * carries most, when.
 */
import { type Figure, type Point, type Row, pick } from "./figure.ts";
import { barChart } from "./searches.ts";

interface Workload {
  readonly file: string;
  /** The most that its accelerators can be split into. */
  readonly subClustersMax: number;
  /** On the family's axis. */
  readonly name: string;
  readonly what: string;
}

const MANY = { file: "policies-compared", subClustersMax: 8 };
const FEW = { file: "policies-few-accelerators", subClustersMax: 4 };

const WORKLOADS: readonly Workload[] = [
  { ...MANY, name: "equal", what: "8 models like ResNet50, 16 accelerators" },
  { ...MANY, name: "bursty", what: "the same, Gamma 0.1" },
  { ...MANY, name: "changing", what: "the same, popularity moves on every 4 s" },
  { ...MANY, name: "skewed", what: "24 models, Zipf 0.9, 16 accelerators" },
  { ...MANY, name: "mixed", what: "weakly batching models of an A100, 16 accelerators" },
  { ...MANY, name: "light", what: "D6's models, which fill little, 8 accelerators" },
  { ...MANY, name: "crowded", what: "the same, slowing their neighbours" },
  { ...FEW, name: "few", what: "D6's models, 4 accelerators" },
  { ...FEW, name: "few-crowded", what: "the same, slowing their neighbours" },
];

interface Contender {
  readonly label: string;
  readonly policy: string;
  readonly subClusters: number;
}

const CONTENDERS: readonly Contender[] = [
  { label: "Nexus-like packing", policy: "nexus", subClusters: 1 },
  { label: "fractions (gpulet-like)", policy: "fractions", subClusters: 1 },
  ...[1, 2, 4, 8].map((subClusters) => ({
    ...{ label: subClusters === 1 ? "Tutti" : `Tutti, ${subClusters} sub-clusters`, policy: "default", subClusters },
  })),
];

export const policies: Figure = {
  name: "policies",
  title: "Static packing, sub-clusters and fractions",
  paper:
    "section 4.4, Nexus' section 6 and gpulet's section 4: each is measured there on workloads of its own; here all on the same, emulated",
  draw: async (bench, scale) => {
    const workloads = pick(scale, WORKLOADS, WORKLOADS.slice(0, 1));
    const asked = workloads.flatMap((workload) =>
      CONTENDERS.filter(({ subClusters }) => subClusters <= workload.subClustersMax).map((contender) => {
        const { subClusters } = contender;
        const set = { workload: workload.name, subClusters: subClusters === 1 ? "1" : `${subClusters}-all` };
        return { workload, contender, point: { file: workload.file, set, policy: contender.policy } satisfies Point };
      }),
    );
    const found = await bench.goodput(asked.map(({ point }) => point));
    const bars = asked.map(({ workload, contender }, i) => {
      const { goodputRps, bound } = found[i]!;
      return { group: workload.name, label: contender.label, value: (100 * goodputRps) / bound.clairvoyantRps };
    });
    const best = (name: string): number =>
      Math.max(...asked.map(({ workload }, i) => (workload.name === name ? found[i]!.goodputRps : 0)));
    const rows = asked.map(({ workload, contender, point }, i): Row => {
      const { goodputRps } = found[i]!;
      const isBest = goodputRps === best(workload.name);
      return {
        what: `${workload.name} (${workload.what}): goodput, ${contender.label}${isBest ? ": the best" : ""}`,
        ...{ policy: contender.policy, ours: goodputRps, unit: "r/s", paper: "", verb: "goodput", point },
      };
    });
    const chart = barChart(bars, {
      name: "policies",
      title: policies.title,
      note: "goodput of the clairvoyant bound of whole accelerators; emulated profiles",
      y: "goodput (% of the bound)",
    });
    return { charts: [chart], rows };
  },
};
