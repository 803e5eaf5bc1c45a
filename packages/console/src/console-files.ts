/**
 * Serves the built page. Its files are read on demand and cached: they are few, small, and named by their contents.
 * Without a build, a page with instructions is served.
 */
import { readFile, readdir, stat } from "node:fs/promises";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Folder of the build, beside the other results of the set-up. */
export const BUILT_FOLDER = fileURLToPath(new URL("../../../.tutti/console/page", import.meta.url));

export interface ConsoleFile {
  readonly status: number;
  readonly type: string;
  readonly bytes: Uint8Array;
  /** Its name is a hash of its contents, so it may be cached for ever. */
  readonly immutable: boolean;
}

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** Largest number of files: a build has five, and a folder with more is no build. */
export const CONSOLE_FILES_MAX = 64;

export class ConsoleFiles {
  readonly #folder: string;
  #built = "";
  #files = new Map<string, ConsoleFile>();

  constructor(folder: string = BUILT_FOLDER) {
    this.#folder = folder;
  }

  /** @param path - `/` or `/assets/…`. @returns undefined where there is no such file. Never rejects */
  async get(path: string): Promise<ConsoleFile | undefined> {
    const isPage = path === "/" || path === "/index.html";
    try {
      if (isPage || !this.#files.has(path)) await this.#read();
    } catch {
      return isPage ? NOT_BUILT : undefined;
    }
    return this.#files.get(isPage ? "/index.html" : path);
  }

  /** Reads the files again where the build changed. */
  async #read(): Promise<void> {
    const { mtimeMs, ino } = await stat(join(this.#folder, "index.html"));
    const built = `${ino} ${mtimeMs}`;
    if (built === this.#built) return;
    const entries = await readdir(this.#folder, { recursive: true, withFileTypes: true });
    const files = new Map<string, ConsoleFile>();
    for (const entry of entries.slice(0, CONSOLE_FILES_MAX)) {
      const type = TYPES[extname(entry.name)];
      if (!entry.isFile() || type === undefined) continue;
      const file = join(entry.parentPath, entry.name);
      const path = `/${file.slice(this.#folder.length + 1).replaceAll("\\", "/")}`;
      files.set(path, { status: 200, type, bytes: await readFile(file), immutable: path.startsWith("/assets/") });
    }
    this.#files = files;
    this.#built = built;
  }
}

const NOT_BUILT: ConsoleFile = {
  status: 503,
  type: TYPES[".html"]!,
  immutable: false,
  bytes: new TextEncoder().encode(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Tutti</title>
<h1>The console has not been built</h1>
<p>Everything else is served. Build it in the repository, and load this page again:</p>
<pre>npm run build -w @tutti/console</pre>
<p><code>npm start</code> does that by itself; where it could not, it said why on its first lines.</p>
</html>
`),
};
