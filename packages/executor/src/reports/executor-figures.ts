import type { StatsReported } from "@tutti/protocol";
import type { GpuSlot } from "../batches/gpu-slot.ts";

type PerThread = NonNullable<StatsReported["perThread"]>;

/** @param threads - rows of the same thread are joined, so that each thread appears once in a report */
export function executorFigures(
  desks: Iterable<GpuSlot>,
  models: number,
  epoch: number,
  more: Readonly<Record<string, number>>,
  threads: PerThread,
): Pick<StatsReported, "figures" | "perGpu" | "perThread"> {
  let batches = 0;
  let items = 0;
  let failedItems = 0;
  const perGpu = [...desks].map((slot) => {
    batches += slot.batches;
    items += slot.items;
    failedItems += slot.failedItems;
    const { busyUs, jobsUs, accepted, refusedBatches: refused } = slot;
    return { gpu: slot.gpu, figures: { busyUs, jobsUs, batches: slot.batches, items: slot.items, accepted, refused } };
  });
  const perThread = threads.length === 0 ? {} : { perThread: joined(threads) };
  return { figures: { batches, items, failedItems, models, epoch, ...more }, perGpu, ...perThread };
}

function joined(threads: PerThread): PerThread {
  const rows = new Map<number, PerThread[number]>();
  for (const row of threads) {
    const known = rows.get(row.thread);
    rows.set(row.thread, known === undefined ? row : { ...known, figures: { ...known.figures, ...row.figures } });
  }
  return [...rows.values()];
}
