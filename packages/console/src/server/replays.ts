/** Replays for the page: one at a time, on a thread with a time limit. */
import { Worker } from "node:worker_threads";
import type { CatalogModel } from "@tutti/actors";
import { measuredDelays } from "@tutti/admin/operators";
import { type ReplayAnswer, type ReplayWish, REPLAY_GPUS_MAX, REPLAY_MINUTES_MAX } from "../index.ts";
import { type StatsReported, TuttiError } from "@tutti/protocol";
import { measuredNetwork } from "@tutti/simulator";
import { type Instant, before, seconds } from "@tutti/units";
import type { ArrivalRecord } from "./arrival-record.ts";
import type { ReplayJob, ReplayModel } from "./replay-run.ts";

const REPLAY_LASTS_MS = 60_000;
/** Heap limit of the thread, in MB: half a million arrivals take some 300. */
const HEAP_MB = 1_024;

/** Policies that the page offers; any other policy that the simulator knows is accepted too. */
export const REPLAY_POLICIES = [
  "default",
  "deferred",
  "eager",
  "timeout:20%",
  "nexus",
  "shepherd",
  "clockwork",
  "clipper",
  "triton",
];

export interface ReplayPorts {
  readonly record: ArrivalRecord;
  readonly models: () => readonly CatalogModel[];
  /** The last reports of batchers, with the delays that they measured. */
  readonly batchers: () => Iterable<StatsReported>;
  readonly now: () => Instant;
}

export class Replays {
  readonly #ports: ReplayPorts;
  #worker: Worker | undefined;

  constructor(ports: ReplayPorts) {
    this.#ports = ports;
  }

  /** @throws {TuttiError} INVALID_INPUT, OVERLOADED while another one runs */
  async run(wish: ReplayWish, signal: AbortSignal): Promise<ReplayAnswer> {
    if (this.#worker !== undefined)
      throw new TuttiError("TUTTI_OVERLOADED", "another replay runs: one at a time", { retryAfterMs: 2_000 });
    const { record, models, batchers, now } = this.#ports;
    const recorded = record.since(before(now(), seconds(60 * wish.minutes)));
    const network = measuredNetwork(measuredDelays(Array.from(batchers(), (last) => ({ last }))));
    const job: ReplayJob = { wish, models: models().flatMap(replayModel), recorded, network };
    const worker = new Worker(new URL("./replay-worker.ts", import.meta.url), {
      name: "replay",
      workerData: job,
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
    });
    this.#worker = worker;
    const { promise, resolve, reject } = Promise.withResolvers<ReplayAnswer>();
    const end = (code: "TUTTI_CANCELLED" | "TUTTI_OVERLOADED", text: string): void =>
      reject(new TuttiError(code, text));
    const onGone = (): void => end("TUTTI_CANCELLED", "the page went away");
    const late = setTimeout(
      () => end("TUTTI_OVERLOADED", `the replay took longer than ${REPLAY_LASTS_MS / 1_000} s: ask for fewer minutes`),
      REPLAY_LASTS_MS,
    );
    signal.addEventListener("abort", onGone);
    worker.once("message", (told: { answer?: ReplayAnswer; problem?: string }) => {
      if (told.answer !== undefined) resolve(told.answer);
      else reject(new TuttiError("TUTTI_INVALID_INPUT", told.problem ?? "the replay failed"));
    });
    worker.once("error", (error) =>
      reject(new TuttiError("TUTTI_INTERNAL", `the replay broke down: ${error.message}`)),
    );
    worker.once("exit", () => end("TUTTI_CANCELLED", "the gateway is stopping"));
    try {
      return await promise;
    } finally {
      clearTimeout(late);
      signal.removeEventListener("abort", onGone);
      this.#worker = undefined;
      void worker.terminate();
    }
  }

  close(): void {
    void this.#worker?.terminate();
  }
}

/** @throws {TuttiError} INVALID_INPUT */
export function replayWish(value: unknown): ReplayWish {
  const { minutes, gpus, policy } = (typeof value === "object" && value !== null ? value : {}) as Partial<
    Record<keyof ReplayWish, unknown>
  >;
  const isWhole = (count: unknown, most: number): count is number =>
    Number.isSafeInteger(count) && (count as number) >= 1 && (count as number) <= most;
  if (!isWhole(minutes, REPLAY_MINUTES_MAX)) throw wrong(`minutes: a whole number from 1 to ${REPLAY_MINUTES_MAX}`);
  if (!isWhole(gpus, REPLAY_GPUS_MAX)) throw wrong(`gpus: a whole number from 1 to ${REPLAY_GPUS_MAX}`);
  if (typeof policy !== "string" || !/^[a-z-]{1,32}(:[a-z0-9.%]{1,16})?$/.test(policy))
    throw wrong("policy: a name, such as default or timeout:5ms");
  return { minutes, gpus, policy };
}
const wrong = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);

/**
 * Model of the simulation, with the profile of the last bucket, the largest. The replay is then rather too slow than
 * too fast.
 */
function replayModel({ spec, status }: CatalogModel): ReplayModel[] {
  const profile = status?.profiles.at(-1);
  if (profile === undefined || profile.length === 0) return [];
  const { name, slo, batchSizeMax } = spec;
  return [{ name, slo, batchSizeMax, profile, mean: status?.means.at(-1) ?? [] }];
}
