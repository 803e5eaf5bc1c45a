/**
 * The results of a profiling run: an input of `tutti plan fractions` without rates, and output for people and programs.
 */
import { Document, isScalar, visit } from "yaml";
import { renderTable } from "@tutti/admin";
import { type InterferenceResult, samplesOf } from "./measurement.ts";

/** The input as YAML. */
export function interferenceFile({ sizes, models, pairs }: InterferenceResult, command: string): string {
  const samples = samplesOf(models, pairs).map(({ uses, factor }) => [...uses, factor].map(rounded));
  const document = new Document({
    sizes,
    interference: { samples },
    models: models.map(({ name, sloMs, batchMax, cacheUse, bandwidthUse, latencyMs }) => ({
      ...{ name, rate: 0, sloMs, batchMax },
      ...{ cacheUse: rounded(cacheUse), bandwidthUse: rounded(bandwidthUse) },
      latencyMs: mapped(latencyMs, (byBatch) => mapped(byBatch, rounded)),
    })),
  });
  visit(document, {
    Seq: (_, list) => void (list.flow = list.items.every(isScalar)),
    Map: (_, map) => void (map.flow = map.items.every(({ value }) => isScalar(value))),
  });
  const head = `# Measured by \`${command}\`: fill in the rates, or take a running cluster's (\`--live\`), and ask \`tutti plan fractions\`.\n`;
  return head + document.toString({ lineWidth: 0 });
}

/** Public field names: see docs/planning.md. */
export const interferenceJson = ({ coefficients, prediction, ignored, models, pairs, sizes }: InterferenceResult) => ({
  kind: "interference",
  ...{ coefficients, prediction, ignored, sizes, models },
  pairs: pairs.map(({ runs, factors }) =>
    runs.map(({ model, batchSize, size }, i) => ({ model: models[model]!.name, batchSize, size, factor: factors[i] })),
  ),
});

export function interferenceText({ coefficients, prediction, ignored, models, pairs }: InterferenceResult): string {
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
  const factors = pairs.flatMap((pair) => pair.factors).sort((a, b) => a - b);
  const at = (q: number): string => (factors[Math.ceil(q * factors.length) - 1] ?? 1).toFixed(2);
  const rows = models.map(({ name, batchMax, cacheUse, bandwidthUse, latencyMs }) => [
    ...[name, percent(cacheUse), percent(bandwidthUse)],
    Object.entries(latencyMs)
      .map(([size, byBatch]) => `${size} %: ${byBatch[1]?.toFixed(2) ?? "-"} … ${byBatch[batchMax]!.toFixed(2)} ms`)
      .join(", "),
  ]);
  const [c1, c2, c3, c4, c5] = coefficients.map((c) => c.toFixed(3));
  return [
    renderTable(["model", "cache", "bandwidth", "batches of 1 … most"], rows),
    "",
    `${pairs.length} pairs: a neighbour makes runs ${at(0.5)} times as long (median; 90 % at most ${at(0.9)}, all at most ${at(1)}).`,
    `factor = max(1, ${c1}·u1·p1 + ${c2}·u2·p2 + ${c3}·v1·p1 + ${c4}·v2·p2 + ${c5})`,
    `Prediction error on ${prediction.predicted} pairs that a fit of ${prediction.fitted} had not seen: p90 ${percent(prediction.p90)}, p95 ${percent(prediction.p95)}` +
      ` (with neighbours ignored ${percent(ignored.p90)}, ${percent(ignored.p95)}).`,
    ...(prediction.p90 < ignored.p90
      ? []
      : [
          "Ignoring neighbours predicts better here: take `interference` out of the file, or measure more, for longer, on a machine without other work.",
        ]),
  ].join("\n");
}

const rounded = (value: number): number => Number(value.toPrecision(4));
const mapped = <In, Out>(record: Readonly<Record<string, In>>, change: (value: In) => Out): Record<string, Out> =>
  Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value)]));
