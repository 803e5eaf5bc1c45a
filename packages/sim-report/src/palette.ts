/** Colours that stay apart: a fixed list for a few series, evenly turned hues for many models. */
const FEW = [
  "#2f6db5",
  "#e07b28",
  "#3a9a5b",
  "#c8433d",
  "#7d5bb5",
  "#8b6247",
  "#d368a8",
  "#5f6b76",
  "#a8a023",
  "#2aa5b8",
];
/** 360° divided by the golden ratio: neighbours in the list are far apart on the wheel. */
const GOLDEN_ANGLE = 137.508;

/** @param index - 0 … count-1 */
export function colourOf(index: number, count: number): string {
  if (count <= FEW.length) return FEW[index]!;
  const hue = Math.round((210 + index * GOLDEN_ANGLE) % 360);
  return `hsl(${hue}, ${[62, 48, 72][index % 3]}%, ${[44, 58, 36][index % 3]}%)`; // commas: zrender reads no other form
}

export const GOOD = "#3a9a5b";
export const BAD = "#c8433d";
export const LATE = "#e07b28";
export const NEUTRAL = "#5f6b76";
