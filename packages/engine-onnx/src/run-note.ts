/**
 * A session worker's current run or load, on disk. A native abort or a kill takes the process down in mid-run and
 * leaves no time to report the model; the next process of the same accelerators reads it here.
 *
 * One file for each process, `<slot>.<pid>.run`: one JSON object padded to a fixed length while a run or load is in
 * progress, otherwise blank at its start. Both are single writes into the page cache, which outlives the process (not
 * the host).
 */
import {
  closeSync,
  constants,
  ftruncateSync,
  lstatSync,
  openSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";

export interface RunNote {
  /** Key of the executor that wrote the note, and its accelerator. */
  readonly executor: number;
  readonly gpu: number;
  readonly model: string;
  readonly number: number;
  readonly doing: "run" | "load";
  /** Microseconds since 1970. */
  readonly startedAt: number;
}

interface NotedModel {
  readonly name: string;
  readonly number: number;
}

export interface NoteOptions {
  readonly path: string;
  readonly executor: number;
  readonly gpu: number;
}

const LENGTH = 512;
const BLANK = Uint8Array.of(0x20);
/**
 * A note begins with its time, in milliseconds and three zeros: the next one of the same model changes nothing else.
 */
const TIME_AT = '{"startedAt":'.length;
const TIME_END = TIME_AT + String(Date.now()).length;
const SUFFIX = ".run";
/** Suffix of the main thread, whose runs overlap those of the session worker. */
const INLINE = ".inline";
/**
 * Others may write to a folder that --state names. What they put at the note's name is not written through, nor read.
 */
const NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
const OLD_FILE = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/**
 * Writes the note of this process. A write must not be lost with the process, so every write is synchronous. Where
 * writing fails, runs go unrecorded, which matters only if one of them ends the process: its model gets no fault then.
 */
export class NoteWriter {
  readonly #options: NoteOptions;
  readonly #file: number | undefined;
  readonly #buffer = Buffer.alloc(LENGTH, 0x20);
  /** The last note, whose bytes but the first are still in the file. */
  #model: NotedModel | undefined;
  #doing: RunNote["doing"] | undefined;

  constructor(options: NoteOptions) {
    this.#options = options;
    try {
      removeOld(options.path);
      this.#file = openSync(options.path, NEW_FILE, 0o600);
    } catch {
      return;
    }
    // Allocates the file's block now, while there may be one.
    this.#write(this.#buffer, LENGTH);
  }

  begin(model: NotedModel, doing: RunNote["doing"]): void {
    const now = Date.now();
    if (model === this.#model && doing === this.#doing) {
      this.#buffer.write(String(now), TIME_AT, "latin1");
      return this.#write(this.#buffer, TIME_END);
    }
    this.#model = model;
    this.#doing = doing;
    const { executor, gpu } = this.#options;
    const { name, number } = model;
    const note: RunNote = { startedAt: now * 1000, executor, gpu, model: name, number, doing };
    this.#buffer.fill(0x20, this.#buffer.write(JSON.stringify(note)));
    this.#write(this.#buffer, LENGTH);
  }
  end(): void {
    this.#write(BLANK, 1);
  }
  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
  }

  /** Writes at the start of the file, or empties the file where that fails. The earlier run is over in any case. */
  #write(bytes: Uint8Array, length: number): void {
    if (this.#file === undefined) return;
    try {
      writeSync(this.#file, bytes, 0, length, 0);
    } catch {
      this.#model = undefined; // the next note is written whole
      try {
        ftruncateSync(this.#file, 0);
      } catch {
        // The file can't be emptied.
      }
    }
  }
}

/** Removes the note of a predecessor with the same number, or a link. What is neither stays, and runs go unrecorded. */
function removeOld(path: string): void {
  const old = lstatSync(path, { throwIfNoEntry: false });
  if (old?.isFile() === true || old?.isSymbolicLink() === true) rmSync(path);
}

/** Path of the note of process `pid` of a slot, in a folder that is there. */
export function notePath(folder: string, slot: string, pid: number): string {
  return join(folder, `${slot}.${pid}${SUFFIX}`);
}
/** Path of the same process' note of runs on its main thread. */
export const inlineNotePath = (path: string): string => `${path.slice(0, -SUFFIX.length)}${INLINE}${SUFFIX}`;

/** Removes the notes of a process that exits by itself: no model has killed it. */
export function removeNotes(path: string): void {
  for (const one of [path, inlineNotePath(path)]) rmSync(one, { force: true });
}

/**
 * Finds the notes of this slot's ended processes; the caller removes each file once it is handled. Empty ones are
 * removed here. It is called before this process writes a note: one at that place is put aside, so that neither is
 * removed for the other.
 */
export function notesLeft(folder: string, slot: string): { readonly note: RunNote; readonly path: string }[] {
  const found: { note: RunNote; path: string }[] = [];
  for (const name of readdirSync(folder)) {
    if (!name.startsWith(`${slot}.`) || !name.endsWith(SUFFIX)) continue;
    const pid = Number(name.slice(slot.length + 1, -SUFFIX.length).replace(INLINE, ""));
    // Our own number can only be that of a predecessor: every container counts from one.
    if (!Number.isSafeInteger(pid) || (pid !== process.pid && runs(pid))) continue;
    const path = join(folder, name);
    const note = readNote(path);
    if (note === undefined) {
      rmSync(path, { force: true });
      continue;
    }
    const aside = join(folder, `${slot}.${note.startedAt}${name.slice(`${slot}.${pid}`.length)}`);
    found.push({ note, path: pid === process.pid ? putAside(path, aside) : path });
  }
  return found.sort((a, b) => a.note.startedAt - b.note.startedAt);
}

/** @param aside - named by a time instead of a process, of which no number is as large */
function putAside(path: string, aside: string): string {
  try {
    renameSync(path, aside);
    return aside;
  } catch {
    return path;
  }
}

function readNote(path: string): RunNote | undefined {
  try {
    const note = JSON.parse(readFileSync(path, { encoding: "utf8", flag: OLD_FILE })) as RunNote;
    const isWhole = Number.isSafeInteger(note.executor) && Number.isSafeInteger(note.number);
    return isWhole && typeof note.model === "string" && Number.isSafeInteger(note.startedAt) ? note : undefined;
  } catch {
    return undefined; // blank at its start: nothing was in progress
  }
}

function runs(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
