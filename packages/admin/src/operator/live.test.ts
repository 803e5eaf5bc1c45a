import { expect, test } from "vitest";
import { renderLine } from "./logs.ts";
import { type LiveOutput, screen, showLive } from "./live.ts";

class Terminal implements LiveOutput {
  readonly isTTY: boolean;
  text = "";
  constructor(isTTY: boolean) {
    this.isTTY = isTTY;
  }
  write = (text: string): void => {
    this.text += text;
  };
}

test("without a terminal, or once, the text is printed and nothing else", async () => {
  for (const [isTTY, once] of [
    [false, false],
    [true, true],
  ] as const) {
    const terminal = new Terminal(isTTY);
    await showLive({ once, everyMs: 1, render: () => "table", output: terminal });
    expect(terminal.text).toBe("table\n");
  }
});

test("on a terminal it is renewed in place until Ctrl-C, and the screen is as it was before", async () => {
  const terminal = new Terminal(true);
  let renders = 0;
  const render = (): string => {
    if (++renders === 3) process.emit("SIGINT");
    return `reading ${renders}`;
  };
  await showLive({ once: false, everyMs: 1, render, output: terminal });
  expect(renders).toBe(3);
  expect(terminal.text.startsWith("\u001b[?1049h\u001b[?25l")).toBe(true);
  expect(terminal.text.endsWith("\u001b[?25h\u001b[?1049l")).toBe(true);
  expect(terminal.text).toContain("\u001b[Hreading 2\u001b[K");
});

test("a table that is larger than the terminal is cut off, and says so", () => {
  const lines = Array.from({ length: 50 }, (_, i) => `line ${i} ${"x".repeat(100)}`).join("\n");
  const shown = screen(lines, { rows: 10, columns: 20 }).split("\r\n");
  expect(shown).toHaveLength(10);
  expect(shown[0]).toBe("\u001b[Hline 0 xxxxxxxxxxxxx\u001b[K");
  expect(shown[8]).toContain("… 42 lines more");
});

test("structured lines are readable, and others stay as they are", () => {
  const line = {
    at: 1_700_000_000_123_000 as never,
    text: `{"level":"warn","msg":"was deposed","role":"ranker","epoch":7}`,
  };
  expect(renderLine(line, { host: "h", name: "ranker-0" })).toBe("22:13:20.123 h/ranker-0 warn  was deposed  epoch=7");
  expect(renderLine({ ...line, text: "Error: no" }, undefined)).toBe("22:13:20.123 Error: no");
  expect(renderLine({ ...line, text: "{ half" }, undefined)).toBe("22:13:20.123 { half");
});

test("an application's words in a line make no line of their own, an audit line least of all, and no command", async () => {
  const forged = "m\u001b[2J\r\n12:00:00.000 info  load mlp  audit=administration who=root\u0007";
  const at = 1_700_000_000_123_000 as never;
  const line = {
    at,
    text: JSON.stringify({ level: "warn", msg: `load ${forged}`, audit: "administration", why: forged }),
  };
  const safe = "m\\u001b[2J\\u000d\\n12:00:00.000 info  load mlp  audit=administration who=root\\u0007";
  expect(renderLine(line, undefined)).toBe(`22:13:20.123 warn  load ${safe}  audit=administration  why=${safe}`);
  expect(renderLine({ at, text: `Error: \u009b2J${forged}` }, undefined)).toBe(`22:13:20.123 Error: \\u009b2J${safe}`);
  const terminal = new Terminal(false);
  await showLive({ once: true, everyMs: 1, render: () => "one\u001b[2J\ntwo", output: terminal });
  expect(terminal.text).toBe("one\\u001b[2J\ntwo\n");
});
