/**
 * How commands write. Names, reasons and texts of applications stand in their lines, and must not act on the terminal:
 * control characters are shown instead. JSON stays the same value, since they are shown as JSON's own escapes.
 */
import { printableLines } from "@tutti/units";

/** A text of one line or several on standard output. */
export const print = (text: string): void => void process.stdout.write(`${printableLines(text)}\n`);

/** The same on standard error, where it doesn't mix with what programs read. */
export const note = (text: string): void => void process.stderr.write(`${printableLines(text)}\n`);
