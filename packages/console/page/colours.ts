/** Each model has one colour, in every view: by its number among those that are served. */
import { colourOf } from "@tutti/sim-report/palette";
import type { FeedState } from "../src/feed.ts";

export type Colours = (name: string) => string;

export function coloursOf(state: FeedState | undefined): Colours {
  const names = [...(state?.models ?? [])].sort((a, b) => a.number - b.number).map(({ name }) => name);
  const colours = new Map(names.map((name, place) => [name, colourOf(place, names.length)]));
  return (name) => colours.get(name) ?? "#7a8594";
}
