/** What `tutti up` says on the terminal: lines for people, or one JSON object a line for programs. */
import type { ListedModel } from "@tutti/client";
import { modelsAsJson, renderModels } from "../models/model-table.ts";
import type { Reading } from "./status-board.ts";
import { renderStatus } from "./status-line.ts";

/** Lines of children shown a second; the rest stand in their logs. */
const CHILD_LINES_MAX = 20;

export class Announcer {
  readonly #json: boolean;
  readonly #write: (line: string) => void;
  #childLines = 0;
  #hidden = 0;
  #stopping = false;

  constructor(options: { readonly json: boolean; readonly write: (line: string) => void }) {
    this.#json = options.json;
    this.#write = options.write;
  }

  say(event: string, text: string, fields: Readonly<Record<string, unknown>> = {}): void {
    this.#write(this.#json ? JSON.stringify({ event, ...fields }) : text);
  }

  /** From now on what children complain of stands in their logs only: their peers are going one after the other. */
  stopping(): void {
    this.#stopping = true;
    this.say("stopping", "Stopping.");
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

  /**
   * A line that a child printed: structured ones from "warn" on, and everything that is not structured, such as a
   * stack.
   */
  childLine(name: string, line: string): void {
    const text = worthShowing(line);
    if (text === undefined || this.#stopping) return;
    if (++this.#childLines > CHILD_LINES_MAX) {
      this.#hidden++;
      return;
    }
    this.say("child-line", `${name} | ${text}`, { name, text });
  }
}

/** What every line of an actor says anyway. */
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
