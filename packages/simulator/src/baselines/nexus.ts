/**
 * Nexus-like: a plan per epoch, frontends that spread requests without a word to one another, nodes that drop early.
 *
 * Source: Shen et al., SOSP '19: §6.1 (squishy bin packing, here nexus-plan.ts), §6.3 (batch-aware dispatch, early
 * drop); docs/algorithms.md, C1 to C3 and C6; Symphony v2, §2.2 (epochs of 10 s; a node runs its models round robin,
 * eagerly; "either runs with the actual smaller batch size or drops excess requests"), §5.1 (one and eight frontends).
 * Same: a session is a (model, SLO); a frontend looks its sessions' accelerators up in the plan and goes round them in
 *   proportion to their planned rates; a node takes its sessions in turn, an empty one costs nothing, drops heads that
 *   can't wait for a batch of the planned size, and never runs a larger one.
 * Chosen: the accelerators are given, so the plan is that of the largest total rate that they carry, in the proportions
 *   of the scenario; spare accelerators repeat the fullest nodes. A new plan (planned-nodes.ts says when) is made from
 *   nothing: C4's incremental form only saves loading times, which are not simulated. A load balancer gives each
 *   request to a frontend at random; each starts its rounds somewhere else. `nexus:8` has eight frontends, `nexus` one;
 *   `nexus:lazy` and `nexus:8,lazy` drop only what can't run even alone; `nexus:oblivious` and `nexus:8,oblivious,lazy`
 *   give models whole accelerators in place of squishy packing (whole-accelerators.ts).
 */
import type { SimClusterFactory } from "../cluster/simulated-cluster.ts";
import { BaselineEngine } from "./engine.ts";
import { type Load, fillNodes } from "./nexus-plan.ts";
import { numberParameter } from "./parameter.ts";
import { type MakePlan, PlannedNodes } from "./planned-nodes.ts";
import type { Stream } from "./streams.ts";
import { saturatedBatch, wholeAccelerators } from "./whole-accelerators.ts";

/** Words that turn something off, after the number of frontends if there is one. */
const WORDS = ["oblivious", "lazy"] as const;

export function nexus(parameter: string | undefined): SimClusterFactory {
  const range = { least: 1, most: 1024, otherwise: 1, example: "8", whole: "whole" } as const;
  const parts = parameter?.split(",") ?? [];
  const [isOblivious, isLazy] = WORDS.map((word) => parts.includes(word));
  const rest = parts.filter((part) => !(WORDS as readonly string[]).includes(part));
  const text = rest.length === 0 ? undefined : rest.join(",");
  const frontends = numberParameter({ policy: "nexus", text, ...range });
  return (options) => {
    return new BaselineEngine(options, { inputs: "pushed" }, (engine) => {
      const plan = isOblivious ? onAcceleratorsOfTheirOwn(engine) : onWholeAccelerators(engine);
      return new PlannedNodes(engine, plan, { frontends, drop: isLazy ? "lazy" : "early" });
    });
  };
}

/** Squishy packing onto all accelerators that there are. */
export const onWholeAccelerators =
  ({ inputDelay, respond, options }: Pick<BaselineEngine, "inputDelay" | "respond" | "options">): MakePlan =>
  ({ streams }, shares) => {
    const loads = loadsOf(streams, shares, inputDelay + respond);
    return fillNodes(loads, options.gpus).map(({ items }) =>
      items.map(({ load, batchSize, rate }) => ({ stream: load, batchSize, rate, profile: loads[load]!.profile })),
    );
  };

/** One model to an accelerator, as far as there are enough of them. */
const onAcceleratorsOfTheirOwn =
  ({ inputDelay, respond, options }: Pick<BaselineEngine, "inputDelay" | "respond" | "options">): MakePlan =>
  ({ streams }, shares) => {
    const loads = loadsOf(streams, shares, inputDelay + respond);
    return wholeAccelerators(loads, options.gpus).flatMap((group) => {
      const places = group.loads.map((stream) => {
        const { profile, rate } = loads[stream]!;
        return { stream, batchSize: saturatedBatch(loads[stream]!), rate: rate / group.gpus, profile };
      });
      return Array.from({ length: group.gpus }, () => places);
    });
  };

const loadsOf = (streams: readonly Stream[], shares: ArrayLike<number>, delays: number): Load[] =>
  streams.map(({ profile, slo }, stream) => ({ profile, limit: slo - delays, rate: shares[stream]! }));
