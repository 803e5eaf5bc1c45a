/**
 * A recorded load in the simulator, with production's own profiler and delay estimators in the loop. It is given what a
 * scenario can't know: the delays that the running system measured, and the recorded noise of its machine.
 */
import { LatencyTable, LogHistogram } from "@tutti/profile";
import { readNoise } from "@tutti/sim-report/scenarios";
import { type Noise, type Scenario, type SimRequest, measuredNetwork, simulate } from "@tutti/simulator";
import { micros, millis } from "@tutti/units";
import type { Seen } from "./comparison.ts";
import { meanOf } from "./live-figures.ts";
import type { LiveRun } from "./live-run.ts";
import type { Workload } from "./workloads.ts";

export async function replay({ models, gpus }: Workload, run: Omit<LiveRun, "live">): Promise<Seen> {
  const { delays, window, trace } = run;
  const { measured, reserved } = delays;
  const noise: Noise = { stalls: (await readNoise(run.noise)).stalls, runsGoOn: true };
  const scenario: Scenario = {
    ...{ seed: 1, duration: micros(window.until), warmup: micros(window.from), gpus },
    ...{ policy: "default:whole", gather: "target", phases: [] },
    rate: 0, // as it was recorded
    arrivals: { process: "trace", entries: trace },
    network: measuredNetwork({
      ...{ arriveUs: measured.arrive, grantUs: measured.grant, startUs: measured.start, respondUs: reserved.respond },
    }),
    models: models.map(({ name, alphaMs, betaMs, batchMax, sloMs }) => ({
      ...{ name, slo: millis(sloMs), classes: [], share: 1 / models.length },
      profile: LatencyTable.affine({ alpha: 1e3 * alphaMs, beta: 1e3 * betaMs, batchSizeMax: batchMax }),
    })),
    noise,
    learned: { given: 1 },
  };
  const isMeasured = ({ arrivedAt }: SimRequest): boolean => arrivedAt >= window.from;
  const answers = models.map(() => new LogHistogram()); // as the ingress has them
  let [refused, good] = [0, 0];
  const { batchSize } = simulate(scenario, {
    listener: {
      refused: (request) => void (isMeasured(request) && refused++),
      finished: ({ requests, model }, _, end) => {
        const answeredAt = end + scenario.network.respond;
        for (const request of requests) {
          if (!isMeasured(request)) continue;
          if (answeredAt <= request.deadline) good++;
          // Later ones were given up: the ingress answers at the deadline and d_resp.
          if (answeredAt <= request.deadline + reserved.respond) answers[model]!.note(answeredAt - request.arrivedAt);
        }
      },
    },
  });
  return {
    goodRps: good / ((window.until - window.from) / 1e6),
    batchMean: batchSize.mean,
    p99Ms: meanOf(answers.map((one) => LogHistogram.quantileOf(one, NOTHING, 0.99) / 1e3)),
    refusedShare: refused / window.offered,
  };
}

const NOTHING = new LogHistogram();
