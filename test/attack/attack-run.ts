/** Runs attacks, one after the other, each kind of system started once. */
import { type Attack, type AttackResult, type AttackedSystem, SYSTEMS, type Scene, type Size } from "./attack.ts";
import { startSystem } from "./systems.ts";
import { Witness, type WitnessReport, breachesOf } from "./witness.ts";

export interface AttackRunOptions {
  readonly attacks: readonly Attack[];
  readonly size: Size;
  readonly onResult?: (result: AttackResult) => void;
}

export async function attackRun({ attacks, size, onResult }: AttackRunOptions): Promise<AttackResult[]> {
  const results: AttackResult[] = [];
  for (const kind of SYSTEMS) {
    const own = attacks.filter(({ system }) => system === kind);
    if (own.length === 0) continue;
    const system = await startSystem(kind);
    try {
      for (const attack of own) {
        const result = await attackOnce(attack, system, size);
        results.push(result);
        onResult?.(result);
      }
    } finally {
      await system.stop();
    }
  }
  return results;
}

async function attackOnce(attack: Attack, system: AttackedSystem, size: Size): Promise<AttackResult> {
  const { name, what, memoryBytes } = attack;
  const startedMs = performance.now();
  const broken: string[] = [];
  let report: WitnessReport | undefined;
  try {
    // A process that died in an earlier attack has been replaced since.
    const pid = system.up.pidOf("node");
    const scene: Scene = { ...system, pid, size, of: (short, long) => (size === "short" ? short : long) };
    const witness = await Witness.start(scene);
    try {
      broken.push(...(await attack.run(scene)));
    } catch (error) {
      broken.push(`it could not be carried out: ${String(error)}`);
    }
    report = await witness.stop();
    broken.push(...breachesOf(report, size, memoryBytes));
    if (!isSame(system, pid)) broken.push("the process died");
  } catch (error) {
    broken.push(`nobody was served any more: ${String(error)}`);
  }
  const seconds = (performance.now() - startedMs) / 1_000;
  return { name, what, system: attack.system, broken, seconds, witness: report };
}

function isSame({ up }: AttackedSystem, pid: number): boolean {
  try {
    return up.pidOf("node") === pid;
  } catch {
    return false; // no process listens
  }
}
