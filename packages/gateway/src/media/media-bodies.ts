/**
 * Converts pictures and sounds into tensors, on threads of their own. Decoding takes tens of milliseconds, in which no
 * other request would be answered.
 */
import { basename, dirname } from "node:path";
import { fileURLToPath } from "node:url";
import type { CancelSignal } from "@tutti/client";
import type { MediaInput } from "@tutti/onnx-tools";
import { WorkerSteps } from "@tutti/node/steps";
import { type Tensor, TuttiError } from "@tutti/protocol";
import type { StepCall } from "@tutti/ports/steps";
import { type Micros, formatDuration } from "@tutti/units";
import { decodeTensors, encodeTensors } from "@tutti/wire";

/** Pictures and sounds that wait for a thread; beyond, OVERLOADED. */
export const MEDIA_WAITING_MAX = 64;
const MODULE = fileURLToPath(new URL("./media-steps.ts", import.meta.url));
const FUNCTION = `./${basename(MODULE)}#toTensors`;

export interface MediaBody {
  readonly model: string;
  /** The application whose turn it takes: other applications don't wait for its pictures. */
  readonly app: string;
  /** Borrowed until the promise settles. */
  readonly bytes: Uint8Array;
  readonly input: MediaInput;
  /** Aborts when the client no longer waits. */
  readonly signal: CancelSignal;
  /** Moment at which it is no longer wanted, by `performance.now()`, and the time until then. */
  readonly deadline?: { readonly at: number; readonly within: Micros } | undefined;
}

/**
 * Decodes on the threads that run pipelines' functions beside an ingress. They are bounded in number, in waiting calls
 * and in time, and started anew when one dies.
 */
export class MediaBodies {
  readonly #waitingMax: number;
  /** Started for the first model that takes pictures or sounds: most gateways have none. */
  #steps: Promise<WorkerSteps> | undefined;
  #isClosed = false;

  constructor(waitingMax: number = MEDIA_WAITING_MAX) {
    this.#waitingMax = waitingMax;
  }

  /**
   * Decodes one body.
   *
   * @returns the tensors of one request; for a model that takes sound frame by frame, one for each frame
   * @throws {TuttiError} INVALID_INPUT, TOO_LARGE, OVERLOADED, CANCELLED, DEADLINE_EXCEEDED, or INTERNAL where decoding
   *   took its thread too long
   */
  async tensors({ model, app, bytes, input, signal, deadline }: MediaBody): Promise<readonly Tensor[]> {
    const steps = await this.#running();
    const call: StepCall = {
      ...{ pipeline: model, function: FUNCTION, makes: "requests", app },
      body: {
        form: "binary",
        payload: encodeTensors([{ name: "file", type: "UINT8", dims: [bytes.byteLength], data: bytes }]),
      },
      parameters: { input },
      ...{ id: undefined, stages: {}, kept: {} },
    };
    return new Promise((resolve, reject) => {
      const end = (error: TuttiError): void => {
        clearTimeout(timer);
        signal.removeEventListener("abort", onGone);
        giveUp();
        reject(error);
      };
      const onGone = (): void => end(new TuttiError("TUTTI_CANCELLED", "the client went away"));
      const timer =
        deadline && setTimeout(() => end(late(deadline.within)), Math.max(0, deadline.at - performance.now()));
      const giveUp = steps.run(call, (outcome) => {
        clearTimeout(timer);
        signal.removeEventListener("abort", onGone);
        if (!(outcome instanceof TuttiError)) return resolve(outcome.messages.flatMap(decodeTensors));
        reject(outcome.code === "TUTTI_OVERLOADED" ? this.#full() : outcome);
      });
      if (signal.aborted) onGone();
      else signal.addEventListener("abort", onGone, { once: true });
    });
  }

  /** Starts the threads ahead: the first picture would otherwise wait for them. */
  warm(): void {
    if (!this.#isClosed) this.#running().catch(() => undefined); // the next picture's request reports it
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#steps?.then(
      (steps) => steps.close(),
      () => undefined,
    );
  }

  /** The started threads; a failed start is tried again with the next picture. */
  #running(): Promise<WorkerSteps> {
    if (this.#isClosed) throw new TuttiError("TUTTI_UNAVAILABLE", "the gateway is stopping");
    this.#steps ??= WorkerSteps.start({
      folder: dirname(MODULE),
      functions: [FUNCTION],
      waitingMax: this.#waitingMax,
    }).catch((cause: unknown) => {
      this.#steps = undefined;
      throw new TuttiError("TUTTI_INTERNAL", "pictures and sounds can't be read here: run `tutti doctor`", { cause });
    });
    return this.#steps;
  }

  #full(): TuttiError {
    const text = `${this.#waitingMax} pictures and sounds wait to be decoded already (MEDIA_WAITING_MAX)`;
    return new TuttiError("TUTTI_OVERLOADED", text, { retryAfterMs: 50 });
  }
}

const late = (within: Micros): TuttiError =>
  new TuttiError("TUTTI_DEADLINE_EXCEEDED", `it was not received and decoded within ${formatDuration(within)}`);
