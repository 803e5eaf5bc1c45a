/** Terminal output of `tutti up`: lines for people, or one JSON object a line for programs. */
import type { ListedModel } from "@tutti/client/registries";
import { modelsAsJson, renderModels } from "@tutti/admin/model-tables";
import { printable, printableLines } from "@tutti/units";
import type { Reading } from "./status-board.ts";
import { renderStatus } from "./status-line.ts";
import { StatusLog } from "./status-log.ts";

/** Child lines shown per second; all others are in the logs only. */
const CHILD_LINES_MAX = 20;
/** A warning that a child repeats is shown once in this time; then how often it came. Numbers as values don't count. */
const REPEATS_EVERY_MS = 30_000;

/** A terminal: its last line is the status, which changes in place. */
export interface StatusTerminal {
  /** Characters in a line. */
  columns(): number;
  /** Writes as it is, without a line feed. */
  put(text: string): void;
}

/** Returns to the line's beginning and clears it. */
const CLEAR = "\r\u001b[2K";

export class Announcer {
  readonly #json: boolean;
  readonly #write: (line: string) => void;
  readonly #terminal: StatusTerminal | undefined;
  readonly #statusLog = new StatusLog();
  /** The status that stands on the terminal's last line; empty: none. */
  #shown = "";
  #childLines = 0;
  #hidden = 0;
  #stopping = false;
  readonly #repeats = new Map<string, { readonly line: string; readonly until: number; count: number }>();
  readonly #now: () => number;

  /** @param options.terminal - where lines go to people; default: to a file or a program */
  constructor(options: {
    readonly json: boolean;
    readonly write: (line: string) => void;
    readonly terminal?: StatusTerminal | undefined;
    /** Milliseconds of a steady clock. */
    readonly now?: () => number;
  }) {
    this.#now = options.now ?? (() => performance.now());
    this.#json = options.json;
    this.#terminal = options.json ? undefined : options.terminal;
    this.#write = (line) => {
      if (this.#shown !== "") this.#terminal?.put(CLEAR);
      options.write(line);
      if (this.#shown !== "") this.#terminal?.put(this.#shown);
    };
  }

  say(event: string, text: string, fields: Readonly<Record<string, unknown>> = {}): void {
    this.#write(printableLines(this.#json ? JSON.stringify({ event, ...fields }) : text));
  }

  /**
   * Writes the status since the last line to a file. Hides child lines from now on, since children report that their
   * peers stop; the logs still have them.
   */
  stopping(): void {
    this.#stopping = true;
    const rest = this.#statusLog.end();
    if (rest !== undefined) this.#write(this.#textOf(rest));
    this.#show("");
    this.say("stopping", "Stopping.");
  }

  models(listed: readonly ListedModel[]): void {
    if (this.#json) this.#write(JSON.stringify({ event: "ready", models: modelsAsJson(listed) }));
    else this.#write(`${listed.length === 0 ? "" : `${renderModels(listed)}\n`}Ready. Ctrl-C stops everything.`);
  }

  /** Takes the status of each second: for programs a line, on a terminal in place, in a file where there is news. */
  status(reading: Reading): void {
    this.#childLines = 0;
    this.#summariseRepeats();
    if (this.#json) return this.#write(JSON.stringify({ event: "status", ...reading }));
    const shown = this.#terminal === undefined ? this.#statusLog.add(reading) : reading;
    if (shown === undefined) return;
    const text = this.#textOf(shown);
    if (this.#terminal === undefined) this.#write(text);
    else this.#show(text);
  }

  #textOf(reading: Reading): string {
    const hidden = this.#hidden;
    this.#hidden = 0;
    return `${renderStatus(reading)}${hidden > 0 ? ` (${hidden} warnings more in the logs)` : ""}`;
  }

  /** Shows a status on the terminal, in place. */
  #show(status: string): void {
    if (this.#terminal === undefined) return;
    const clipped = status.slice(0, Math.max(0, this.#terminal.columns() - 1));
    if (this.#shown !== "" || clipped !== "") this.#terminal.put(`${CLEAR}${clipped}`);
    this.#shown = clipped;
  }

  /** Shows a child's line: structured ones from "warn" on, and everything unstructured, such as a stack. */
  childLine(name: string, line: string): void {
    const text = worthShowing(line);
    if (text === undefined || this.#stopping) return;
    if (line.startsWith("{") && line.includes('"level":"warn"') && this.#isRepeated(name, text)) return;
    if (++this.#childLines > CHILD_LINES_MAX) {
      this.#hidden++;
      return;
    }
    this.say("child-line", `${name} | ${printable(text)}`, { name, text });
  }

  /** Programs get every line. */
  #isRepeated(name: string, text: string): boolean {
    if (this.#json) return false;
    const key = `${name} | ${text.replaceAll(/=[\d.]+(?=\s|$)/g, "=#")}`;
    const known = this.#repeats.get(key);
    if (known !== undefined) known.count++;
    // No more are kept than lines are shown.
    else if (this.#childLines < CHILD_LINES_MAX)
      this.#repeats.set(key, { line: `${name} | ${printable(text)}`, until: this.#now() + REPEATS_EVERY_MS, count: 0 });
    return known !== undefined;
  }

  #summariseRepeats(): void {
    const now = this.#now();
    for (const [key, { line, until, count }] of this.#repeats) {
      if (until > now) continue;
      this.#repeats.delete(key);
      if (count > 0) this.say("child-line", `${line} (${count} more like it in ${REPEATS_EVERY_MS / 1_000} s)`);
    }
  }
}

/** Fields that every line of an actor has. */
const COMMON = new Set(["level", "time", "msg", "service", "instance", "pid", "hostname", "role", "actor"]);
const LEVELS = new Set(["warn", "error", "fatal"]);

function worthShowing(line: string): string | undefined {
  if (!line.startsWith("{")) return line.trim() === "" ? undefined : line;
  try {
    const entry = JSON.parse(line) as Record<string, unknown>;
    if (!LEVELS.has(String(entry["level"]))) return undefined;
    const fields = Object.entries(entry).filter(([key]) => !COMMON.has(key));
    const shown = fields.map(([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`);
    return [String(entry["msg"] ?? ""), ...shown].join(" ");
  } catch {
    return line;
  }
}
