/**
 * Deals accelerators to sub-clusters in proportion to their work, at least one each. The remaining ones go where a part
 * lacks most.
 */
export function dealtInProportion(count: number, parts: Float64Array): number[] {
  const total = parts.reduce((sum, part) => sum + part, 0);
  const ideal = [...parts].map((part) => (total > 0 ? part / total : 1 / parts.length) * count);
  const given = ideal.map((part) => Math.max(1, Math.floor(part)));
  const lacking = (): number => count - given.reduce((sum, one) => sum + one, 0);
  const byNeed = (a: number, b: number): number => given[a]! / ideal[a]! - given[b]! / ideal[b]! || a - b;
  const places = given.map((_, i) => i);
  for (let left = lacking(); left > 0; left--) given[places.toSorted(byNeed)[0]!]!++;
  // At least one each is more than there are.
  for (let left = lacking(); left < 0; left++)
    given[
      places
        .filter((i) => given[i]! > 1)
        .toSorted(byNeed)
        .at(-1)!
    ]!--;
  return given;
}
