/**
 * An engine in a process of its own. Some engines need an environment from their start (LD_LIBRARY_PATH), and of some a
 * process can run only one (WebGPU in two threads of one process crashes it).
 */
import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Engine, EngineBatch, EngineModel, LoadOutcome, RunOutcome } from "@tutti/ports/engine";
import { assert } from "@tutti/units";

/** `batch.inputs` and the like cross as structured clones. */
export type ChildRequest =
  | { readonly kind: "start"; readonly id: number; readonly provider: string }
  | { readonly kind: "load"; readonly id: number; readonly model: EngineModel }
  | { readonly kind: "unload"; readonly id: number; readonly name: string }
  | { readonly kind: "run"; readonly id: number; readonly batch: EngineBatch }
  | { readonly kind: "stop"; readonly id: number };
export interface ChildReply {
  readonly id: number;
  readonly value: unknown;
}

export type Started = { readonly engine: Engine } | { readonly problem: string };

/** Starts `provider` in a child with `environment` added to ours. */
export function startEngineProcess(provider: string, environment: Readonly<Record<string, string>>): Promise<Started> {
  const child = fork(fileURLToPath(new URL("engine-child.ts", import.meta.url)), {
    env: { ...process.env, ...environment },
    serialization: "advanced",
    execArgv: [],
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  const engine = new EngineProcess(child, `onnx-${provider}`);
  return new Promise((resolve) => {
    engine.ask({ kind: "start", provider }, (problem) => {
      if (typeof problem !== "string") return resolve({ engine });
      if (child.connected) child.disconnect(); // which ends the child
      resolve({ problem });
    });
  });
}

type Question = ChildRequest extends infer R ? (R extends { id: number } ? Omit<R, "id"> : never) : never;

class EngineProcess implements Engine {
  readonly type: string;
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, (value: unknown) => void>();
  #id = 0;
  #exit: string | undefined;
  #stderr = "";

  constructor(child: ChildProcess, type: string) {
    this.type = type;
    this.#child = child;
    child.stderr?.on("data", (chunk: Buffer) => (this.#stderr = (this.#stderr + String(chunk)).slice(-2000)));
    child.on("message", (reply: ChildReply) => {
      const settle = this.#waiting.get(reply.id);
      assert(settle !== undefined, `the engine's process answered ${reply.id} twice`);
      this.#waiting.delete(reply.id);
      settle(reply.value);
    });
    child.on("close", (code, signal) => {
      this.#exit = `the engine's process ended (${code ?? signal}): ${this.#stderr}`;
      const waiting = [...this.#waiting.values()];
      this.#waiting.clear();
      for (const settle of waiting) settle(this.#exit);
    });
  }

  ask(question: Question, settle: (value: unknown) => void): void {
    if (this.#exit !== undefined) return queueMicrotask(settle.bind(null, this.#exit));
    this.#waiting.set(++this.#id, settle);
    this.#child.send({ ...question, id: this.#id });
  }

  load(model: EngineModel, done: (outcome: LoadOutcome) => void): void {
    this.ask({ kind: "load", model }, (value) => {
      done(typeof value === "string" ? { kind: "failed", reason: value } : (value as LoadOutcome));
    });
  }

  unload(name: string, done: () => void): void {
    this.ask({ kind: "unload", name }, () => done());
  }

  run(batch: EngineBatch, done: (outcome: RunOutcome) => void): void {
    this.ask({ kind: "run", batch }, (value) => {
      done(typeof value === "string" ? { kind: "failed", reason: value, fault: true } : (value as RunOutcome));
    });
    const transfer = batch.inputs.map(({ data }) => data.buffer as ArrayBuffer);
    structuredClone(transfer, { transfer }); // the port transfers the buffers, too
  }

  stop(done: () => void): void {
    this.ask({ kind: "stop" }, () => {
      this.#exit ??= "the engine was stopped";
      if (this.#child.connected) this.#child.disconnect(); // which ends the child
      done();
    });
  }
}
