/** Terminal output of `tutti up`: lines for people, or one JSON object a line for programs. */
import type { ListedModel } from "@tutti/client/registries";
import { modelsAsJson, renderModels } from "@tutti/admin/model-tables";
import type { Reading } from "./status-board.ts";
import { renderStatus } from "./status-line.ts";

/** Child lines shown per second; all others are in the logs only. */
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

  /** Hides child lines from now on, since children report that their peers stop; the logs still have them. */
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

  /** Shows a child's line: structured ones from "warn" on, and everything unstructured, such as a stack. */
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
