/**
 * Finds the axis of the rows in each value that crosses the cut. No file says it. A value may have no such axis (a
 * table that was looked up), or fold its rows with something else. So the prefix runs on batches of several sizes.
 */
import { relativeDifference } from "@tutti/engine-onnx";
import type { Tensor } from "@tutti/protocol";
import { gatherRows } from "@tutti/ports/engine";

export interface RowAxes {
  /** Axis of the rows, by name of the value. */
  readonly axes: ReadonlyMap<string, number>;
  /** Values whose rows can't be separated. */
  readonly uncuttable: readonly string[];
}

/** Two runs that differ by less are equal. */
const SAME = 1e-5;

/**
 * @param run - runs the prefix on these rows of one batch; equal rows, equal inputs
 * @param rows - rows of the largest batch that may run: at least two
 */
export async function rowAxes(
  run: (rows: readonly number[]) => Promise<readonly Tensor[]>,
  rows: number,
): Promise<RowAxes> {
  const all = Array.from({ length: rows }, (_, row) => row);
  const whole = await run(all);
  const some = await run(all.slice(1));
  const last = await run(all.slice(-1));
  const axes = new Map<string, number>();
  const uncuttable: string[] = [];
  for (const [i, value] of whole.entries()) {
    const fewer = some[i]!;
    const one = last[i]!;
    const axis = value.dims.findIndex((size, at) => size === rows && fewer.dims[at] === rows - 1 && one.dims[at] === 1);
    const isElsewhereAlike = value.dims.every(
      (size, at) => at === axis || (size === fewer.dims[at] && size === one.dims[at]),
    );
    const isCuttable =
      axis >= 0 &&
      isElsewhereAlike &&
      differs(gatherRows(value, axis, all.slice(1)), fewer) <= SAME &&
      differs(gatherRows(value, axis, all.slice(-1)), one) <= SAME;
    if (isCuttable) axes.set(value.name, axis);
    else uncuttable.push(value.name);
  }
  return { axes, uncuttable };
}

const differs = (a: Tensor, b: Tensor): number => relativeDifference([a], [b]);
