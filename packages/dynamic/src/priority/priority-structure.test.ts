import { Prng } from "@tutti/units";
import { expect, test } from "vitest";
import { KineticTournament } from "./kinetic-tournament.ts";
import { Scan } from "./scan.ts";

/** Lines as scores have them: α of either sign, some without slope, some alike. */
function lineFrom(prng: Prng): [number, number] {
  const kind = prng.nextInt(10);
  if (kind === 0) return [0, 1];
  if (kind < 3) return [0, prng.nextFloat()];
  const alpha = (kind < 7 ? 1 : -1) * prng.nextFloat() * 10 ** -prng.nextInt(6);
  return [alpha, kind < 5 ? 0 : prng.nextFloat() * 4];
}

test.for([1, 2, 3])(
  "the kinetic tournament takes what a scan takes, whatever was inserted, removed, changed and rebased (PRIORITY-1), seed %i",
  (seed) => {
    const prng = new Prng(seed);
    const [kinetic, scan] = [new KineticTournament(), new Scan()];
    const inside = new Set<number>();
    const lines = new Map<number, [number, number]>();
    let x = 1;
    for (let step = 0; step < 60_000; step++) {
      const slot = prng.nextInt(step < 30_000 ? 40 : 600);
      const action = prng.nextFloat();
      if (!inside.has(slot) && action < 0.55) {
        const [alpha, beta] = lineFrom(prng);
        const deadline = prng.nextInt(5);
        for (const one of [kinetic, scan]) one.insert(slot, alpha, beta, deadline, step);
        inside.add(slot);
        lines.set(slot, [alpha, beta]);
      } else if (inside.has(slot) && action < 0.35) {
        const [alpha, beta] = lineFrom(prng);
        for (const one of [kinetic, scan]) one.update(slot, alpha, beta);
        lines.set(slot, [alpha, beta]);
      } else if (action < 0.45) {
        for (const one of [kinetic, scan]) one.remove(slot);
        inside.delete(slot);
      } else if (action < 0.56) {
        if (prng.nextFloat() < 0.7) x *= 1 + prng.nextFloat() * 0.05;
        const count = prng.nextInt(9);
        const [own, expected]: [number[], number[]] = [[], []];
        const taken = kinetic.popBest(x, count, own);
        if (taken !== scan.popBest(x, count, expected)) expect(own).toEqual(expected);
        if (own.join() !== expected.join()) expect(own).toEqual(expected);
        for (const one of own) inside.delete(one);
      } else if (action < 0.5605) {
        // A base reset: x falls, and every line is drawn anew in it.
        for (const one of [kinetic, scan]) one.rebase();
        for (const one of inside) {
          const [alpha, beta] = lines.get(one)!;
          lines.set(one, [alpha * x, beta]);
          for (const structure of [kinetic, scan]) structure.update(one, alpha * x, beta);
        }
        x = 1;
      }
      // an expect a step would take most of the time
      if (kinetic.size !== inside.size) expect(kinetic.size).toBe(inside.size);
    }
  },
);

test("lines that cross are taken in the order of the moment, also when nothing else happens between", () => {
  for (const lines of [new KineticTournament(), new Scan()]) {
    lines.insert(0, 0, 5, 0, 0); // always 5
    lines.insert(1, 1, 0, 0, 1); // passes it at x = 5
    lines.insert(2, 4, -16, 0, 2); // passes the first at 5.25, the second at 16/3
    const out: number[] = [];
    const bestAt = (x: number): number => {
      lines.popBest(x, 1, out);
      const best = out[0]!;
      lines.insert(best, [0, 1, 4][best]!, [5, 0, -16][best]!, 0, best);
      return best;
    };
    expect([1, 4.9, 5, 5.2, 5.3, 5.4, 1e6].map(bestAt)).toEqual([0, 0, 0, 1, 1, 2, 2]);
  }
});
