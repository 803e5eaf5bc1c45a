/** What `tutti up` says on the terminal: lines for people, or one JSON object a line for programs. */
import type { ListedModel } from "@tutti/client";
import { modelsAsJson, renderModels } from "../models/model-table.ts";
import type { Reading } from "./status-board.ts";
import { renderStatus } from "./status-line.ts";

/** Lines of children shown a second; the rest stand in their logs. */
const CHILD_LINES_MAX = 20;
const WARN = 40;

export class Announcer {
  readonly #json: boolean;
  readonly #write: (line: string) => void;
  #childLines = 0;
  #hidden = 0;

  constructor(options: { readonly json: boolean; readonly write: (line: string) => void }) {
    this.#json = options.json;
    this.#write = options.write;
  }

  say(event: string, text: string, fields: Readonly<Record<string, unknown>> = {}): void {
    this.#write(this.#json ? JSON.stringify({ event, ...fields }) : text);
  }

  models(listed: readonly ListedModel[]): void {
    if (this.#json) this.#write(JSON.stringify({ event: "ready", models: modelsAsJson(listed) }));
    else this.#write(`${renderModels(listed)}\nReady. Ctrl-C stops everything.`);
  }

  status(reading: Reading): void {
    const hidden = this.#hidden;
    this.#childLines = 0;
    this.#hidden = 0;
    if (this.#json) this.#write(JSON.stringify({ event: "status", ...reading }));
    else this.#write(`${renderStatus(reading)}${hidden > 0 ? ` (${hidden} warnings more in the logs)` : ""}`);
  }

  /** A line that a child printed: structured ones from "warn" on, and everything that is not structured, such as a stack. */
  childLine(name: string, line: string): void {
    const text = worthShowing(line);
    if (text === undefined) return;
    if (++this.#childLines > CHILD_LINES_MAX) {
      this.#hidden++;
      return;
    }
    this.say("child-line", `${name} | ${text}`, { name, text });
  }
}

function worthShowing(line: string): string | undefined {
  if (!line.startsWith("{")) return line.trim() === "" ? undefined : line;
  try {
    const {
      level,
      msg,
      time: _,
      pid: __,
      hostname: ___,
      role: ____,
      actor: _____,
      ...rest
    } = JSON.parse(line) as Record<string, unknown>;
    if (typeof level !== "number" || level < WARN) return undefined;
    const fields = Object.entries(rest).map(
      ([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`,
    );
    return [String(msg ?? ""), ...fields].join(" ");
  } catch {
    return line;
  }
}
