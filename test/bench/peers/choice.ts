/** Chooses the settings that a system is measured with. Each is tried alone on the machine, and the best are kept. */
import { type Entrant, type Stage, labelOf, settingsOf, startAll } from "./lineup.ts";
import { type SystemName, isPeer } from "./workloads.ts";

export interface Tried extends Entrant {
  /** Rate that it carried in a ramp; undefined where there is only one setting. */
  readonly carried: number | undefined;
}

export interface Choice {
  readonly finalists: readonly Entrant[];
  /** Peers far behind the best one, each with its best setting: the result of their trial is enough. */
  readonly behind: readonly (Entrant & { readonly carried: number })[];
}

/** A peer that carries less than this share of the best one is far behind it. */
const FAR_BEHIND = 0.5;
/** A system's second setting that carries this share of its best is measured too: the trials are short. */
const NEAR = 0.85;
/** Share of the best peer's rate so far below which a peer is not tried with its other settings. */
const HOPELESS = 0.25;

export async function trySettings(stage: Stage, systems: readonly SystemName[]): Promise<Tried[]> {
  const all: Tried[] = [];
  for (const name of systems) {
    const settings = settingsOf(name, stage.workload);
    if (settings.length === 1) {
      all.push({ name, setting: settings[0]!, carried: undefined });
      continue;
    }
    for (const setting of settings) {
      const [one] = await startAll(stage, [{ name, setting }]);
      if (one === undefined) break;
      const { trials, seconds } = stage;
      const carried = await trials.fineRamp(one, await trials.ramp(one, seconds), seconds);
      await one.stop();
      stage.tried.push({ system: name, setting: labelOf(name, setting) ?? "", carried });
      all.push({ name, setting, carried });
      // This holds in all workloads but the first, in which each system is tried with all its settings.
      const most = Math.max(0, ...all.map((tried) => (isPeer(tried.name) ? (tried.carried ?? 0) : 0)));
      if (stage.workload.name !== "mlp" && carried < HOPELESS * most) break;
    }
  }
  return all;
}

export function choose(tried: readonly Tried[]): Choice {
  const bySystem = [...Map.groupBy(tried, ({ name }) => name).values()].map((own) =>
    own
      .map((one) => ({ ...one, carried: one.carried ?? Infinity }))
      .sort((a, b) => (a.carried === b.carried ? 0 : b.carried - a.carried)),
  );
  const peers = bySystem.filter(([best]) => isPeer(best!.name));
  const most = Math.max(0, ...peers.map(([best]) => best!.carried));
  const behind = peers.filter(([best]) => best!.carried < FAR_BEHIND * most);
  const ahead = bySystem.filter((own) => !behind.includes(own));
  return {
    behind: behind.map(([best]) => best!),
    finalists: ahead.flatMap(([best, second]) =>
      second !== undefined && second.carried >= NEAR * best!.carried ? [best!, second] : [best!],
    ),
  };
}
