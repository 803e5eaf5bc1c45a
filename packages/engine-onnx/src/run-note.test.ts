import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { EngineBatch } from "@tutti/ports/engine";
import { afterAll, expect, test } from "vitest";
import { InlineModels } from "./inline-models.ts";
import type { LoadedModel } from "./loaded-model.ts";
import { NoteWriter, inlineNotePath, notePath, notesLeft, removeNotes } from "./run-note.ts";

const folder = mkdtempSync(join(tmpdir(), "tutti-notes-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Runs a process that writes notes and ends as `code` does. */
function child(slot: string, code: string): number {
  const module = new URL("./run-note.ts", import.meta.url).href;
  const script = `
    import { NoteWriter, notePath } from ${JSON.stringify(module)};
    const path = notePath(${JSON.stringify(folder)}, ${JSON.stringify(slot)}, process.pid);
    const note = new NoteWriter({ path, executor: 42, gpu: 3 });
    note.begin({ name: "a-long-name-that-is-overwritten", number: 1 }, "load");
    ${code}`;
  return spawnSync(process.execPath, ["--input-type=module", "-e", script]).pid;
}

test("what a killed process was doing is read by the next one of its slot, and by no other", () => {
  child("main-0", `note.end(); note.begin({ name: "mlp", number: 7 }, "run"); process.kill(process.pid, "SIGKILL");`);
  expect(notesLeft(folder, "main-1")).toEqual([]);
  expect(notesLeft(folder, "main")).toEqual([]);
  const [left, ...more] = notesLeft(folder, "main-0");
  expect([left?.note, more]).toMatchObject([{ executor: 42, gpu: 3, model: "mlp", number: 7, doing: "run" }, []]);
  expect(Math.abs(Date.now() * 1000 - left!.note.startedAt)).toBeLessThan(60_000_000);
  expect(notesLeft(folder, "main-0")).toHaveLength(1); // until the note is removed
  rmSync(left!.path);
  expect(notesLeft(folder, "main-0")).toEqual([]);
});

test("a later run of the same model is noted with its own time", () => {
  child(
    "main-5",
    `
    const model = { name: "mlp", number: 7 };
    let now = 1_700_000_000_000;
    Date.now = () => now++;
    for (let run = 0; run < 3; run++) {
      note.begin(model, "run");
      if (run < 2) note.end();
    }
    process.kill(process.pid, "SIGKILL");`,
  );
  const [left] = notesLeft(folder, "main-5");
  expect(left?.note).toMatchObject({ executor: 42, gpu: 3, model: "mlp", number: 7, doing: "run" });
  expect(left?.note.startedAt).toBe(1_700_000_000_002_000);
});

test("where processes have the same number, a note is read until it is removed, and its successor's stays", () => {
  const path = notePath(folder, "main-6", process.pid);
  const write = (number: number): NoteWriter => {
    const writer = new NoteWriter({ path, executor: number, gpu: 0 });
    writer.begin({ name: "mlp", number }, "run");
    return writer;
  };
  write(1).close();
  expect(notesLeft(folder, "main-6")).toMatchObject([{ note: { number: 1 } }]); // it ended before it could tell
  const [left] = notesLeft(folder, "main-6");
  const own = write(2);
  rmSync(left!.path);
  own.close();
  expect(notesLeft(folder, "main-6")).toMatchObject([{ note: { number: 2 } }]);
});

test("runs of the session worker and of the main thread are noted beside each other", async () => {
  const note = { path: notePath(folder, "main-7", process.pid), executor: 1, gpu: 0 };
  const worker = new NoteWriter(note);
  const inline = new InlineModels({ provider: "cpu", threads: 1, device: 0 }, note);
  const model = { spec: { name: "quick", number: 2 }, run: () => new Promise(() => undefined) };
  await inline.put("quick", model as unknown as LoadedModel);
  void inline.run({ model: "quick" } as EngineBatch);
  worker.begin({ name: "long", number: 1 }, "run");
  worker.close();
  const models = notesLeft(folder, "main-7").map(({ note: { model } }) => model);
  expect(models.sort()).toEqual(["long", "quick"]);
  new NoteWriter(note).close();
  new NoteWriter({ ...note, path: inlineNotePath(note.path) }).close();
  removeNotes(note.path);
  expect(readdirSync(folder).filter((name) => name.startsWith(`main-7.${process.pid}`))).toEqual([]);
});

test("a native abort in a load is noted as one", () => {
  child("main-2", "process.abort();");
  expect(notesLeft(folder, "main-2")).toMatchObject([{ note: { number: 1, doing: "load" } }]);
});

test("a process that ends between two runs has nothing to tell, and its note goes", () => {
  child("main-3", `note.end(); process.kill(process.pid, "SIGKILL");`);
  expect(readdirSync(folder).some((name) => name.startsWith("main-3."))).toBe(true);
  expect(notesLeft(folder, "main-3")).toEqual([]);
  expect(readdirSync(folder).some((name) => name.startsWith("main-3."))).toBe(false);
});

test("the note of a process that still runs is left alone, and one that makes no sense is removed", () => {
  const path = notePath(folder, "main-4", process.ppid);
  const note = new NoteWriter({ path, executor: 1, gpu: 0 });
  note.begin({ name: "mlp", number: 7 }, "run");
  note.close();
  const broken = notePath(folder, "main-4", 4_194_305); // above any process id
  writeFileSync(broken, '{"model":');
  expect(notesLeft(folder, "main-4")).toEqual([]);
  expect([existsSync(path), existsSync(broken)]).toEqual([true, false]);
});

test("a disk that takes nothing leaves runs unnoted, and ends nobody", () => {
  const full = join(folder, "full.run");
  for (const path of [full, join(folder, "nowhere", "x.run")]) {
    const module = new URL("./run-note.ts", import.meta.url).href;
    const script = `
      import { NoteWriter } from ${JSON.stringify(module)};
      const writer = new NoteWriter({ path: ${JSON.stringify(path)}, executor: 1, gpu: 0 });
      writer.begin({ name: "quick", number: 1 }, "run");
      writer.end();
      writer.close();`;
    // No file may grow: each write fails, as on a full disk.
    const { status } = spawnSync("sh", [
      "-c",
      `ulimit -f 0; exec "$0" "$@"`,
      process.execPath,
      "--input-type=module",
      "-e",
      script,
    ]);
    expect(status).toBe(0);
  }
  expect(readFileSync(full, "utf8")).toBe("");
});

test("what lies at the note's name and is no file stays as it is", () => {
  const path = notePath(folder, "pipe", 1);
  spawnSync("mkfifo", [path]);
  const writer = new NoteWriter({ path, executor: 1, gpu: 0 });
  writer.begin({ name: "quick", number: 1 }, "run");
  writer.close();
  expect(statSync(path).isFIFO()).toBe(true);
});

test("a link at the note's name is replaced, and neither written through nor read", () => {
  const target = join(folder, "precious");
  const note = { executor: 42, gpu: 3, model: "mlp", number: 7, doing: "run", startedAt: 1 };
  writeFileSync(target, JSON.stringify(note));
  const path = notePath(folder, "linked", process.pid);
  symlinkSync(target, path);
  expect(notesLeft(folder, "linked")).toEqual([]);
  symlinkSync(target, path);
  const writer = new NoteWriter({ path, executor: 1, gpu: 0 });
  writer.begin({ name: "bert", number: 2 }, "run");
  expect(JSON.parse(readFileSync(target, "utf8"))).toEqual(note);
  writer.close();
  expect(notesLeft(folder, "linked")).toMatchObject([{ note: { model: "bert" } }]);
  // Nobody ever writes to the pipe: opening it as a file would wait for ever.
  const pipe = notePath(folder, "piped", process.pid);
  spawnSync("mkfifo", [pipe]);
  expect(statSync(pipe).isFIFO()).toBe(true);
  expect(notesLeft(folder, "piped")).toEqual([]);
});
