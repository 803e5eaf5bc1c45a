/** V8's sampling profiler around a call, and the functions with the most samples. */
import { Session } from "node:inspector/promises";

export interface HotFunction {
  readonly name: string;
  /** File and line of its definition. */
  readonly place: string;
  readonly share: number;
}

const SAMPLE_EVERY = 200; // µs

/** Runs `work` and lists functions by their share of self time. */
export async function profiled<T>(work: () => T, top: number): Promise<{ result: T; hot: HotFunction[] }> {
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.setSamplingInterval", { interval: SAMPLE_EVERY });
  await session.post("Profiler.start");
  const result = work();
  const { profile } = await session.post("Profiler.stop");
  session.disconnect();
  const frames = new Map(profile.nodes.map((node) => [node.id, node.callFrame]));
  const times = new Map<string, number>();
  let total = 0;
  profile.samples?.forEach((id, i) => {
    const { functionName, url, lineNumber } = frames.get(id)!;
    if (functionName === "post") return; // starting the profiler itself
    const key = `${functionName || "(anonymous)"}\t${url === "" ? "" : `${url.split("/").pop()}:${lineNumber + 1}`}`;
    const time = profile.timeDeltas?.[i] ?? 0;
    times.set(key, (times.get(key) ?? 0) + time);
    total += time;
  });
  const sorted = [...times].sort((a, b) => b[1] - a[1]).slice(0, top);
  const hot = sorted.map(([key, time]) => {
    const [name, place] = key.split("\t") as [string, string];
    return { name, place, share: time / total };
  });
  return { result, hot };
}
