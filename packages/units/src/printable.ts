/** Characters that move a terminal's cursor, begin a line of their own, or turn the direction of what is written. */
const UNPRINTABLE = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** One line of text from outside, safe for a terminal: controls are shown as `\n` or `\u001b`, tabs as spaces. */
export function printable(text: string): string {
  return text.replaceAll(UNPRINTABLE, (character) => {
    if (character === "\t") return " ";
    if (character === "\n") return "\\n";
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/** Text of several lines, each of them as `printable`: where what comes from outside is within a line already. */
export const printableLines = (text: string): string => text.split("\n").map(printable).join("\n");
