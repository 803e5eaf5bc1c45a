import { InMemoryNetwork } from "@tutti/ports/bus";
import { expect, test, vi } from "vitest";
import { IDLE_BEAT_MS } from "../seconds-option.ts";
import { ClusterView } from "./cluster-view.ts";

test("that everybody must have been heard by now is noticed even where timers are early by the view's clock", async () => {
  vi.useFakeTimers();
  try {
    const begin = Date.now();
    const slow = { now: () => 0.99 * (Date.now() - begin), wall: () => 0 };
    const view = new ClusterView(slow);
    view.listen(new InMemoryNetwork().connect({ name: "operator" }), "main");
    let end: boolean | undefined;
    void view.until(() => view.knowsAll, 60_000).then((isEnough) => (end = isEnough));
    await vi.advanceTimersByTimeAsync(IDLE_BEAT_MS);
    expect(end).toBe(undefined);
    await vi.advanceTimersByTimeAsync(0.02 * IDLE_BEAT_MS);
    expect([end, vi.getTimerCount()]).toEqual([true, 0]);
  } finally {
    vi.useRealTimers();
  }
});
