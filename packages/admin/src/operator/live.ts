/** Text that is updated in place on a terminal, and printed once elsewhere. */
import { printableLines } from "@tutti/units";

export interface LiveOptions {
  /** Prints once, when everything is known. */
  readonly once: boolean;
  readonly everyMs: number;
  readonly render: () => Promise<string> | string;
  readonly output?: LiveOutput;
}

export interface LiveOutput {
  readonly isTTY?: boolean;
  readonly rows?: number;
  readonly columns?: number;
  write(text: string): unknown;
}

const ESC = "\u001b[";
const HIDE_CURSOR = `${ESC}?25l`;
const SHOW_CURSOR = `${ESC}?25h`;
/** Control sequences: cursor to the upper left corner; clear the rest of the line; clear the rest of the screen. */
const HOME = `${ESC}H`;
const CLEAR_LINE = `${ESC}K`;
const CLEAR_BELOW = `${ESC}J`;
/** The alternate screen: leaving it restores the previous content. */
const OTHER_SCREEN = `${ESC}?1049h`;
const OWN_SCREEN = `${ESC}?1049l`;

export const isLive = (output: LiveOutput = process.stdout): boolean => output.isTTY === true;

/** Shows the text until Ctrl-C, or once. */
export async function showLive({ once, everyMs, render, output = process.stdout }: LiveOptions): Promise<void> {
  if (once || !isLive(output)) {
    output.write(`${printableLines(await render())}\n`);
    return;
  }
  const { promise: stopped, resolve: stop } = Promise.withResolvers<true>();
  const onSignal = (): void => stop(true);
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal);
  output.write(OTHER_SCREEN + HIDE_CURSOR);
  try {
    for (;;) {
      output.write(screen(printableLines(await render()), output));
      let timer: NodeJS.Timeout | undefined;
      const tick = new Promise<false>((resolve) => (timer = setTimeout(() => resolve(false), everyMs)));
      const isOver = await Promise.race([stopped, tick]);
      clearTimeout(timer);
      if (isOver) return;
    }
  } finally {
    output.write(SHOW_CURSOR + OWN_SCREEN);
    process.off("SIGINT", onSignal).off("SIGTERM", onSignal);
  }
}

/** Overwrites line by line, since blanking the screen first would flicker; excess lines and columns are cut off. */
export function screen(text: string, { rows = 40, columns = 160 }: Pick<LiveOutput, "rows" | "columns">): string {
  const lines = text.split("\n");
  const shown =
    lines.length > rows - 1 ? [...lines.slice(0, rows - 2), `… ${lines.length - rows + 2} lines more`] : lines;
  return `${HOME}${shown.map((line) => `${line.slice(0, columns)}${CLEAR_LINE}`).join("\r\n")}\r\n${CLEAR_BELOW}`;
}
