/**
 * The load of the scheduler benchmark. Models are equal (the paper's table 2 ResNet50: l(b) = 1.053·b + 5.072 ms, SLO
 * 25 ms), and arrivals are Poisson, at a share of the accelerators' capacity. Arrivals are drawn before the clock
 * starts.
 */
import { LatencyTable, staggeredBatch } from "@tutti/profile";
import type { ModelThreadConfig, Request } from "@tutti/scheduling";
import {
  type ActorKey,
  type Instant,
  type Micros,
  Prng,
  type RequestSeq,
  micros,
  millis,
  threadId,
} from "@tutti/units";

export const PROFILE = LatencyTable.affine({ alpha: 1053, beta: 5072, batchSizeMax: 64 });
export const SLO = millis(25);

export interface Shape {
  readonly models: number;
  readonly gpus: number;
}

export interface Arrivals {
  /** µs, rising. */
  readonly at: Float64Array;
  readonly model: Uint16Array;
}

/** Capacity of `gpus` staggered accelerators, all models together, in requests per µs. It is a bound, not a goodput. */
export const boundOf = ({ gpus }: Shape): number =>
  staggeredBatch({ profile: PROFILE, slo: SLO, executors: gpus }).perMicro;

export function drawArrivals({ models }: Shape, perMicro: number, count: number, seed: number): Arrivals {
  const prng = new Prng(seed);
  const arrivals = { at: new Float64Array(count), model: new Uint16Array(count) };
  let now = 1e6;
  for (let i = 0; i < count; i++) {
    now += prng.nextExponential(perMicro);
    arrivals.at[i] = Math.round(now);
    arrivals.model[i] = prng.nextInt(models);
  }
  return arrivals;
}

export function modelConfig(
  model: number,
  delays: { ctrl: Micros; perItem: Micros; guard: Micros },
): ModelThreadConfig {
  return {
    thread: threadId(model, 0),
    term: 1,
    epoch: 1,
    profile: PROFILE,
    slo: SLO,
    policy: { kind: "deferred" },
    patience: 1,
    gather: "target",
    guard: delays.guard,
    ctrl: delays.ctrl,
    perItem: delays.perItem,
    respond: micros(0),
    queueMax: 65_536,
    batchesInFlightMax: 65_536,
    batchIdBase: 1 + model * 2 ** 32,
  };
}

export function requestAt(at: number, seq: number): Request {
  return {
    ingress: 77 as ActorKey,
    seq: seq as RequestSeq,
    deadline: (at + SLO) as Instant,
    arrivedAt: at as Instant,
    slo: SLO,
    app: 0,
    size: 150_000,
  };
}
