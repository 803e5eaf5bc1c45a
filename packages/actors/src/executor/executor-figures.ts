import type { StatsReported } from "@tutti/protocol";
import type { GpuDesk } from "./gpu-desk.ts";

export function executorFigures(
  desks: Iterable<GpuDesk>,
  models: number,
  epoch: number,
): Pick<StatsReported, "figures" | "perGpu"> {
  let batches = 0;
  let items = 0;
  let failedItems = 0;
  const perGpu = [...desks].map((desk) => {
    batches += desk.batches;
    items += desk.items;
    failedItems += desk.failedItems;
    const { busyUs, accepted, refusedBatches: refused } = desk;
    return { gpu: desk.gpu, figures: { busyUs, batches: desk.batches, items: desk.items, accepted, refused } };
  });
  return { figures: { batches, items, failedItems, models, epoch }, perGpu };
}
