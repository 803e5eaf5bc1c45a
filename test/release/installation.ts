/** An empty project outside of the repository, with the packed tarballs installed as a user installs them. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { thisHost } from "../../infra/setup/host.mjs";
import { npmCommand, npmEnvironment } from "../../infra/setup/npm.mjs";

export const ROOT = join(import.meta.dirname, "../..");

const OF_THE_MACHINE = new Set(["TUTTI_NATS_SERVER", "NODE_EXTRA_CA_CERTS"]);

export interface Finished {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export type UpEvent = Readonly<Record<string, unknown>> & { readonly event: string };

export class Installation {
  readonly folder = mkdtempSync(join(tmpdir(), "tutti-release-"));
  readonly #host = thisHost();

  constructor() {
    this.write("package.json", '{ "private": true, "type": "module" }\n');
  }

  write(name: string, content: string | Uint8Array): string {
    const path = join(this.folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
    return path;
  }

  npm(...args: string[]): Promise<Finished> {
    const [command, ...before] = npmCommand(this.#host);
    const env = { ...npmEnvironment(this.#host.env), ...this.#environment() };
    return this.#host.run(command, [...before, ...args], { cwd: this.folder, env });
  }

  /** @throws an Error with npm's words */
  async install(...wanted: string[]): Promise<void> {
    const done = await this.npm("install", "--prefer-offline", "--no-audit", "--no-fund", ...wanted);
    if (done.code !== 0) throw new Error(`npm install: ${done.stdout}${done.stderr}`);
  }

  run(node: string, ...args: string[]): Promise<Finished> {
    return new Promise((resolve) =>
      execFile(node, args, { cwd: this.folder, env: this.#environment(node) }, (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
      ),
    );
  }

  /** The installed `tutti`, under this Node. */
  tutti(node: string, ...args: string[]): Promise<Finished> {
    return this.run(node, join(this.folder, "node_modules/.bin/tutti"), ...args);
  }

  up(...args: string[]): InstalledUp {
    const command = [join(this.folder, "node_modules/.bin/tutti"), "up", "--json", "--port", "0", ...args];
    return new InstalledUp(
      spawn(process.execPath, command, {
        ...{ cwd: this.folder, env: this.#environment(), stdio: ["ignore", "pipe", "pipe"] },
      }),
    );
  }

  /**
   * Nothing of this process's cluster or of the repository's set-up is found: only a nats-server may be, and what the
   * machine trusts. Without its certificates npm's `ci` waits minutes for retries of TLS, and ends with its cache.
   */
  #environment(node = process.execPath): NodeJS.ProcessEnv {
    const others = Object.entries(process.env).filter(
      ([name]) => !/^(tutti_|vitest|node_|npm_)/i.test(name) || OF_THE_MACHINE.has(name),
    );
    return {
      ...Object.fromEntries(others),
      PATH: [dirname(node), process.env["PATH"] ?? ""].join(delimiter),
      TUTTI_HOME: join(this.folder, "state"),
    };
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** The installed `tutti up`, by its events. */
export class InstalledUp {
  readonly #child: ChildProcess;
  readonly #events: UpEvent[] = [];
  readonly #waiting = new Set<() => void>();
  #errors = "";

  constructor(child: ChildProcess) {
    this.#child = child;
    child.stderr!.on("data", (chunk: Buffer) => (this.#errors += String(chunk)));
    const look = (): void => this.#waiting.forEach((one) => one());
    createInterface({ input: child.stdout! }).on("line", (line) => {
      this.#events.push(JSON.parse(line) as UpEvent);
      look();
    });
    child.on("close", look);
  }

  /** The first event of this name (that fits), past or to come. It rejects when `tutti up` ends without one. */
  next(name: string, fits: (event: UpEvent) => boolean = () => true): Promise<UpEvent> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        const found = this.#events.find((event) => event.event === name && fits(event));
        const ended = this.#child.exitCode ?? this.#child.signalCode;
        if (found === undefined && ended === null) return;
        this.#waiting.delete(look);
        if (found !== undefined) resolve(found);
        else reject(new Error(`tutti up ended with ${ended}: ${this.#errors.slice(-2_000)}`));
      };
      this.#waiting.add(look);
      look();
    });
  }

  /** @returns its exit code */
  stop(): Promise<number | null> {
    return new Promise((resolve) => {
      if (this.#child.exitCode !== null) return resolve(this.#child.exitCode);
      this.#child.on("close", (code) => resolve(code));
      this.#child.kill("SIGTERM");
    });
  }
}
