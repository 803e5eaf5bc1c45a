import type { Prng } from "@tutti/units";
import type { Plan } from "./plan.ts";

/** Messages from any of `from` to any of `to` are lost. */
export interface Block {
  readonly from: ReadonlySet<string>;
  readonly to: ReadonlySet<string>;
}
/** A partition, whole or of some directions of some links. */
export type Cut = readonly Block[];

/** The network between slots: when the copies of each message arrive. Faults last until `heal`. */
export class Links {
  readonly #plan: Plan;
  readonly #prng: Prng;
  readonly #cuts = new Set<Cut>();
  faulty = false;

  constructor(plan: Plan, prng: Prng) {
    this.#plan = plan;
    this.#prng = prng;
  }

  cut(cut: Cut): void {
    this.#cuts.add(cut);
  }
  mend(cut: Cut): void {
    this.#cuts.delete(cut);
  }
  heal(): void {
    this.#cuts.clear();
    this.faulty = false;
  }
  isCut(from: string, to: string): boolean {
    for (const cut of this.#cuts) for (const block of cut) if (block.from.has(from) && block.to.has(to)) return true;
    return false;
  }

  /** Delays of the copies that arrive, in µs: none for a message that is lost. */
  fates(from: string, to: string): number[] {
    const usual = this.#delay();
    if (this.isCut(from, to)) return [];
    if (!this.faulty) return [usual];
    const { loss, repeat, late, lateUsMax } = this.#plan.link(from, to);
    if (loss > 0 && this.#prng.nextFloat() < loss) return [];
    const slow = (share: number): number =>
      share > 0 && this.#prng.nextFloat() < share ? this.#prng.nextInt(lateUsMax) : 0;
    const fates = [usual + slow(late)];
    if (repeat > 0 && this.#prng.nextFloat() < repeat) fates.push(this.#delay() + slow(0.7));
    return fates;
  }

  #delay(): number {
    const { hopUs, hopJitterUs } = this.#plan;
    return hopUs + (hopJitterUs > 0 ? this.#prng.nextInt(hopJitterUs) : 0);
  }
}
