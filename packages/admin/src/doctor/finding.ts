/** The findings of `tutti doctor`, and how they are shown. */
import { styleText } from "node:util";
import { printable } from "@tutti/units";
import { EXIT } from "../failure.ts";

/** `note`: neither good nor bad, but worth knowing. `warn`: works, but worse than it could. `fail`: can't work. */
export type State = "ok" | "note" | "warn" | "fail";

export interface Finding {
  /** Two or three words: "file descriptors". */
  readonly check: string;
  readonly state: State;
  readonly found: string;
  /** The consequence. Set for every finding that is not `ok`. */
  readonly why?: string;
  /** The next step. Set for everything that can be repaired. */
  readonly next?: string;
  /** A cluster was named, and can't be reached. */
  readonly isUnreachable?: boolean;
}

const MARKS: Readonly<Record<State, { readonly word: string; readonly colour: "green" | "cyan" | "yellow" | "red" }>> =
  {
    ok: { word: "ok", colour: "green" },
    note: { word: "note", colour: "cyan" },
    warn: { word: "warn", colour: "yellow" },
    fail: { word: "FAIL", colour: "red" },
  };

/** Warnings are no failure: the exit code is 0. */
export function exitCodeOf(findings: readonly Finding[]): number {
  if (findings.some(({ isUnreachable }) => isUnreachable === true)) return EXIT.unavailable;
  return findings.some(({ state }) => state === "fail") ? EXIT.failed : EXIT.ok;
}

/** @param stream - colours are for terminals, and respect NO_COLOR */
export function renderFindings(findings: readonly Finding[], stream: NodeJS.WritableStream): string {
  const width = Math.max(...findings.map(({ check }) => check.length));
  const lines = findings.flatMap(({ check, state, found, why, next }) => {
    const { word, colour } = MARKS[state];
    const mark = styleText(colour, word.padEnd(4), { stream, validateStream: true });
    const indent = 4 + 2 + width + 2;
    return [
      `${mark}  ${check.padEnd(width)}  ${wrapped(found, indent)}`,
      ...(why === undefined ? [] : [" ".repeat(indent) + wrapped(why, indent)]),
      ...(next === undefined ? [] : [`${" ".repeat(indent)}→ ${wrapped(next, indent + 2)}`]),
    ];
  });
  return [...lines, "", summaryOf(findings)].join("\n");
}

const LINE_WIDTH = 120;

/** Wraps text: further lines begin at `indent`. A word longer than a line stays whole, since it may be a command. */
function wrapped(text: string, indent: number): string {
  const lines: string[] = [];
  for (const word of printable(text).split(" ")) {
    const last = lines.at(-1);
    if (last !== undefined && indent + last.length + 1 + word.length <= LINE_WIDTH)
      lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines.join(`\n${" ".repeat(indent)}`);
}

function summaryOf(findings: readonly Finding[]): string {
  const count = (state: State): number => findings.filter((finding) => finding.state === state).length;
  const [failed, warned] = [count("fail"), count("warn")];
  if (failed + warned === 0) return "Nothing stands in the way.";
  const parts = [
    ...(failed > 0 ? [`${failed} must be mended`] : []),
    ...(warned > 0 ? [`${warned} could be better`] : []),
  ];
  return `${parts.join(", ")}.`;
}
