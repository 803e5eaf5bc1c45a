/** Models drawn from a seed, for the property tests of this package. */
import { LatencyTable } from "@tutti/profile";
import { type Micros, type Prng, threadId } from "@tutti/units";
import type { ModelThreadConfig } from "../model-thread/model-thread-state.ts";
import type { Policy } from "../policy.ts";

const POLICIES: Policy[] = [
  { kind: "deferred" },
  { kind: "deferred" },
  { kind: "eager" },
  { kind: "timeout", wait: 4000 as Micros },
  { kind: "latest" },
  { kind: "beta-lambda" },
];

export function randomModel(prng: Prng, number: number): ModelThreadConfig {
  const batchSizeMax = 1 + prng.nextInt(16);
  let latency = 500 + prng.nextInt(8000);
  const points = Array.from({ length: batchSizeMax }, (_, i) => {
    latency += prng.nextInt(1500);
    return { batchSize: i + 1, latency: latency as Micros };
  });
  const profile = LatencyTable.fromPoints(points);
  const kind = prng.nextInt(2);
  return {
    thread: threadId(number, 0),
    term: 1,
    epoch: 1,
    profile,
    slo: Math.round(profile.latency(batchSizeMax) * (1.2 + 2 * prng.nextFloat())) as Micros,
    policy: POLICIES[prng.nextInt(POLICIES.length)]!,
    patience: prng.nextInt(3) === 0 ? prng.nextFloat() : 1,
    gather: prng.nextInt(2) === 0 ? "target" : "head",
    guard: (100 * prng.nextInt(3)) as Micros,
    ctrl: (kind * prng.nextInt(600)) as Micros,
    perItem: (kind * prng.nextInt(60)) as Micros,
    respond: (100 * prng.nextInt(3)) as Micros,
    queueMax: 5 + prng.nextInt(200),
    batchesInFlightMax: 1 + prng.nextInt(20),
    batchIdBase: 1 + number * 1_000_000,
  };
}
