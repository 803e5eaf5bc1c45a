/**
 * Finds the gaps in a line of text. Lines wider than the recogniser's widest bucket are cut there, and spaces that it
 * overlooked are put back there.
 */
import type { RgbImage } from "@tutti/onnx-tools";
import type { Character } from "./ctc.ts";

/** Columns [from, to) of a line. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** Largest distance of an empty column's darkest pixel from the ground, as a fraction of the line's contrast. */
const EMPTY_SHARE = 0.3;

/** Runs of columns without print: their pixels are all near the ground, which is the line's median brightness. */
export function gapsOf({ rgb, width, height }: RgbImage): Span[] {
  const grey = new Uint8Array(width * height);
  for (let i = 0; i < grey.length; i++) {
    grey[i] = ((rgb[i * 3] as number) * 77 + (rgb[i * 3 + 1] as number) * 150 + (rgb[i * 3 + 2] as number) * 29) >> 8;
  }
  const sorted = grey.toSorted();
  const ground = sorted[sorted.length >> 1] as number;
  const contrast = Math.max(ground - (sorted[0] as number), (sorted.at(-1) as number) - ground);
  // The upper and lower edges of a crop may hold parts of the lines above and below.
  const [top, bottom] = [Math.floor(height / 8), Math.ceil((height * 7) / 8)];
  const isEmpty = (x: number): boolean => {
    for (let y = top; y < bottom; y++)
      if (Math.abs((grey[y * width + x] as number) - ground) > contrast * EMPTY_SHARE) return false;
    return true;
  };
  const gaps: Span[] = [];
  for (let from = 0, to = 0; from < width; from = to + 1) {
    for (to = from; to < width && isEmpty(to);) to++;
    if (to > from) gaps.push({ from, to });
  }
  return gaps;
}

/**
 * Cuts a line into pieces at most `widthMax` wide, of similar lengths. Each cut is in the middle of the widest gap in
 * the stretch where it may lie, so between words if possible. Without any gap it goes through print: a lost letter is
 * better than a line squeezed beyond reading.
 */
export function piecesOf(width: number, gaps: readonly Span[], widthMax: number): Span[] {
  const pieces: Span[] = [];
  let from = 0;
  while (width - from > widthMax) {
    const left = Math.ceil((width - from) / widthMax);
    const wanted = from + Math.ceil((width - from) / left);
    const first = from + Math.floor((wanted - from) / 2);
    const to = cutBetween(gaps, { first, last: from + widthMax, wanted });
    pieces.push({ from, to });
    from = to;
  }
  pieces.push({ from, to: width });
  return pieces;
}

/**
 * Print varies: gaps of at least this fraction of the widest one's width count as equal. The nearest of them is taken.
 */
const ALIKE_SHARE = 0.75;

function cutBetween(
  gaps: readonly Span[],
  { first, last, wanted }: { readonly first: number; readonly last: number; readonly wanted: number },
): number {
  const within = gaps
    .map(({ from, to }) => ({ width: to - from, middle: Math.floor((from + to) / 2) }))
    .filter(({ middle }) => middle > first && middle <= last);
  const widest = Math.max(0, ...within.map(({ width }) => width));
  const alike = within.filter(({ width }) => width >= widest * ALIKE_SHARE);
  const distance = ({ middle }: { readonly middle: number }): number => Math.abs(middle - wanted);
  return alike.toSorted((a, b) => distance(a) - distance(b))[0]?.middle ?? last;
}

/**
 * Least width of a space, as a fraction of the average advance of the line's characters. Other gaps are at most half of
 * the advance, even in fixed-width print.
 */
const SPACE_SHARE = 0.55;

/**
 * A line's text, with a space wherever print has a wide gap that the recogniser passed over.
 *
 * @param characters - in order, `at` in columns of the line
 */
export function spaced(characters: readonly Character[], gaps: readonly Span[]): string {
  const printed = characters.filter(({ text }) => text !== " ");
  const [head, tail] = [printed[0], printed.at(-1)];
  if (head === undefined || tail === undefined) return "";
  // From the middle of the first to the middle of the last character, spaces among them.
  const advance = (tail.at - head.at) / Math.max(1, characters.indexOf(tail) - characters.indexOf(head));
  const spaces = gaps
    .filter(({ from, to }) => to - from >= advance * SPACE_SHARE)
    .map(({ from, to }) => (from + to) / 2);
  let text = "";
  let last = -Infinity;
  for (const character of characters) {
    const overlooked = spaces.some((middle) => middle > last && middle < character.at);
    if (overlooked && text !== "" && !text.endsWith(" ") && character.text !== " ") text += " ";
    text += character.text;
    last = character.at;
  }
  return text.trim().replaceAll(/ +/g, " ");
}
