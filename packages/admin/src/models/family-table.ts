/** `tutti models --families`: the parts that families share. */
import type { ListedModel } from "@tutti/client/registries";
import type { ModelSpec } from "@tutti/protocol";
import { formatDuration } from "@tutti/units";
import { renderTable } from "../table.ts";

const HEADINGS = ["family", "model", "version", "SLO", "state", "nodes", "shared", "file", "own part"];

/** One row for each model of each family, then each family's savings. */
export function renderFamilies(listed: readonly ListedModel[]): string {
  const families = listed.filter(({ spec }) => spec.family !== undefined);
  const rows = families.flatMap(({ spec, status }) =>
    spec.family!.variants.map(({ name, version, slo, whole, suffix }) => [
      ...[spec.name, name, version, formatDuration(slo), status?.state ?? "waiting"],
      ...(whole === undefined || suffix === undefined
        ? ["-", "-", "-", "-"]
        : [String(whole.nodes), String(whole.nodes - suffix.nodes), megabytes(whole.bytes), megabytes(suffix.bytes)]),
    ]),
  );
  const sums = families.map(({ spec }) => {
    const { separate, family } = bytesOf(spec);
    return separate === 0
      ? `${spec.name}: emulated`
      : `${spec.name}: ${megabytes(family)} instead of ${megabytes(separate)}, the common prefix once`;
  });
  return [renderTable(HEADINGS, rows), ...sums].filter((part) => part !== "").join("\n");
}

/** For programs; `bytes` compares the weights served separately and as a family. */
export const familiesAsJson = (listed: readonly ListedModel[]): unknown[] =>
  listed
    .filter(({ spec }) => spec.family !== undefined)
    .map(({ spec, status }) => ({
      name: spec.name,
      number: spec.number,
      version: spec.version,
      state: status?.state ?? "waiting",
      reason: status?.reason ?? "",
      bytes: bytesOf(spec),
      prefix: spec.family!.prefix && {
        bytes: spec.family!.prefix.bytes,
        nodes: spec.family!.prefix.nodes,
        cut: spec.family!.prefix.cut.map(({ name }) => name),
      },
      models: spec.family!.variants.map(({ name, version, slo, whole, suffix }) => ({
        ...{ name, version, sloUs: slo },
        ...(whole !== undefined && { bytes: whole.bytes, nodes: whole.nodes, sha256: whole.sha256 }),
        ...(whole !== undefined && suffix !== undefined && { shared: whole.nodes - suffix.nodes, own: suffix.bytes }),
      })),
    }));

const bytesOf = ({ family, file }: ModelSpec): { readonly separate: number; readonly family: number } => ({
  separate: (family?.variants ?? []).reduce((sum, { whole }) => sum + (whole?.bytes ?? 0), 0),
  family: file?.bytes ?? 0,
});

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(bytes < 1e6 ? 3 : 1)} MB`;
