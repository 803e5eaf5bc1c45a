/** Each model has one colour, in every view: by its number among those that are served. */
import { colourOf } from "@tutti/sim-report/palette";
import type { FeedState } from "../src/feed.ts";

export type Colours = (name: string) => string;

export function coloursOf(state: FeedState | undefined): Colours {
  const names = [...(state?.models ?? [])].sort((a, b) => a.number - b.number).map(({ name }) => name);
  const colours = new Map(names.map((name, place) => [name, colourOf(place, names.length)]));
  return (name) => colours.get(name) ?? "#7a8594";
}

/** The colour of a text on a bar, black or white: the one that stands out more. @param fill - `#rrggbb` */
export function textOn(fill: string): "#000" | "#fff" {
  const [red, green, blue] = [1, 3, 5].map((at) => linear(Number.parseInt(fill.slice(at, at + 2), 16) / 255));
  const luminance = 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
  // The contrasts, (1 + 0.05) / (l + 0.05) and (l + 0.05) / 0.05, are equal there: both are 4.58, enough for small
  // text.
  return luminance > Math.sqrt(1.05 * 0.05) - 0.05 ? "#000" : "#fff";
}

const linear = (share: number): number => (share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4);
