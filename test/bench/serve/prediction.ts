import { LatencyTable } from "@tutti/profile";
import { Cluster } from "@tutti/scheduling";
import { type ActorKey, type Instant, type Micros, Prng, type RequestSeq, seconds, threadId } from "@tutti/units";
import type { PolicyName } from "./serve-options.ts";

export interface PredictionOptions {
  readonly policy: PolicyName;
  readonly rate: number;
  readonly seconds: number;
  readonly gpus: number;
  readonly seed: number;
  readonly alphaUs: number;
  readonly betaUs: number;
  readonly batchSizeMax: number;
  readonly slo: Micros;
  /** Delays as the running system measured them. */
  readonly ctrl: Micros;
  readonly perItem: Micros;
  readonly respond: Micros;
  readonly guard: Micros;
}

export interface Prediction {
  readonly inTimeShare: number;
  readonly batchMean: number;
  readonly busyShare: readonly number[];
}

/**
 * Predicts the same load by the scheduler's own arithmetic. The same cores run in virtual time, with the delays that
 * the system measured.
 */
export function predict(options: PredictionOptions): Prediction {
  const { gpus, slo, rate } = options;
  const runFor = seconds(options.seconds);
  const busy = new Array<number>(gpus).fill(0);
  let [items, batches, bad, total] = [0, 0, 0, 0];
  const profile = LatencyTable.affine({
    alpha: options.alphaUs,
    beta: options.betaUs,
    batchSizeMax: options.batchSizeMax,
  });
  const cluster = new Cluster({
    gpus,
    models: [
      {
        thread: threadId(1, 0),
        term: 1,
        epoch: 1,
        profile,
        slo,
        policy: { kind: options.policy },
        patience: 1,
        gather: "target",
        guard: options.guard,
        ctrl: options.ctrl,
        perItem: options.perItem,
        respond: options.respond,
        queueMax: 65_536,
        batchesInFlightMax: 4_096,
      },
    ],
    listener: {
      refused: () => bad++,
      finished: (batch, begin, end) => {
        for (const { deadline } of batch.requests) if (end > deadline) bad++;
        busy[batch.grant.gpu]! += end - begin;
        batches++;
        items += batch.requests.length;
      },
    },
  });
  const prng = new Prng(options.seed);
  let now = 0;
  for (let seq = 1; now < runFor; seq++) {
    now += prng.nextExponential(rate / 1e6);
    const arrivedAt = Math.round(now) as Instant;
    const deadline = (arrivedAt + slo - options.respond) as Instant;
    cluster.arrive(0, { ingress: 1 as ActorKey, seq: seq as RequestSeq, deadline, arrivedAt, slo, app: 0, size: 0 });
    total++;
  }
  cluster.runUntilIdle();
  return {
    inTimeShare: 1 - bad / total,
    batchMean: items / Math.max(1, batches),
    busyShare: busy.map((us) => Number((us / runFor).toFixed(3))),
  };
}
