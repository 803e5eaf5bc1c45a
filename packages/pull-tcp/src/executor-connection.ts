import type { Socket } from "node:net";
import type { PulledItem } from "@tutti/protocol";
import { type DataHandlers, PULLS_MAX } from "@tutti/ports/pull";
import type { ActorKey } from "@tutti/units";
import { type DecodedFrame, type HelloFrame, decodeFrame, encodeReply, encodeWelcome, isFrameFault } from "@tutti/wire";
import { FrameAssembler } from "./frame-assembler.ts";
import { FrameSocket } from "./frame-socket.ts";
import { isProof, proofOf } from "./hello-proof.ts";
import type { ReceiveBudget } from "./receive-budget.ts";

/** Sweeps until a peer has said hello, and until a frame that it has begun is whole or has grown. */
const HELLO_SWEEPS = 5;
const FRAME_SWEEPS = 10;
/** A frame that has grown so much from one sweep to the next has FRAME_SWEEPS anew: the link is slow, not dead. */
const FRAME_GROWTH_BYTES_MIN = 65_536;
/** A larger buffer isn't kept for the next frame. */
const KEPT_BYTES = 1_048_576;

/** The server as one of its connections sees it. */
export interface ConnectionOwner {
  readonly key: ActorKey;
  readonly secret: string;
  readonly handlers: DataHandlers;
  readonly budget: ReceiveBudget;
  readonly pendingBytesMax: number;
  readonly figures: { pulls: number; forbiddenPulls: number; results: number };
  fault(text: string): void;
  /** Takes the connection for an executor's, whose hello was right. @returns the reason why it can't, if any */
  admit(connection: ExecutorConnection, executor: number): string | undefined;
}

/** One executor's connection to an ingress. Until its hello proves that it is one it may send nothing else. */
export class ExecutorConnection {
  readonly #owner: ConnectionOwner;
  readonly #frames: FrameSocket;
  readonly #assembler = new FrameAssembler();
  readonly #address: string;
  #executor = 0;
  #unanswered = 0;
  /** Sweeps that have seen the frame #partial hardly grow, or no hello. */
  #sweeps = 0;
  #partial = 0;
  #partialBytes = 0;

  /** @param socket - over TLS: the socket behind the handshake */
  constructor(owner: ConnectionOwner, socket: Socket) {
    this.#owner = owner;
    this.#frames = new FrameSocket(socket, owner.pendingBytesMax);
    this.#address = `${socket.remoteAddress}:${socket.remotePort}`;
    // "close" follows. A handshake that fails is reported; a connection that breaks is no fault.
    socket.on("error", (error: NodeJS.ErrnoException) => {
      if (this.#executor === 0 && error.syscall === undefined) this.#report(`TLS: ${error.message}`);
    });
    socket.on("close", () => this.#assembler.close());
    socket.on("data", (chunk) => this.#onData(chunk));
  }

  get socket(): Socket {
    return this.#frames.socket;
  }

  /** 0: it has not said hello. */
  get executor(): number {
    return this.#executor;
  }

  /** No sweep has seen it yet; asked of one that has not said hello. */
  get isNew(): boolean {
    return this.#sweeps === 0;
  }

  #onData(chunk: Uint8Array): void {
    if (!this.#assembler.take(chunk, this.#onFrame)) this.cutOff(this.#assembler.fault);
  }

  readonly #onFrame = (bytes: Uint8Array): boolean => {
    const frame = decodeFrame(bytes);
    const fault = isFrameFault(frame)
      ? frame.fault
      : this.#executor === 0
        ? this.#onFirst(frame)
        : this.#onDecoded(frame);
    if (fault !== undefined) this.cutOff(fault);
    return !this.socket.destroyed;
  };

  #onFirst(frame: DecodedFrame): string | undefined {
    return frame.kind === "hello" ? this.#onHello(frame) : `${frame.kind} before hello`;
  }

  /** @returns the problem with the hello, if any */
  #onHello({ executor, ingress, proof }: HelloFrame): string | undefined {
    const { key, secret, budget } = this.#owner;
    if (ingress !== key) return `hello to another ingress, ${ingress}`;
    if (!isProof(proof, proofOf(secret, "hello", executor, key))) return "hello without this ingress' secret";
    const refusal = this.#owner.admit(this, executor);
    if (refusal !== undefined) return refusal;
    this.#executor = executor;
    this.#sweeps = 0;
    this.#assembler.admit(budget, KEPT_BYTES);
    this.#frames.send(encodeWelcome(key, proofOf(secret, "welcome", executor, key)), "kept");
    return undefined;
  }

  #onDecoded(frame: DecodedFrame): string | undefined {
    const { figures, handlers } = this.#owner;
    if (frame.kind === "results") {
      if (frame.results.executor !== this.#executor) return "results in the name of another executor";
      figures.results++;
      handlers.onResults(frame.results);
      return undefined;
    }
    if (frame.kind !== "pull") return `${frame.kind} is not for an ingress`;
    if (frame.pull.executor !== this.#executor) return "a pull in the name of another executor";
    if (this.#unanswered >= PULLS_MAX) return `more than ${PULLS_MAX} pulls at once`;
    figures.pulls++;
    this.#unanswered++;
    let replied = false;
    handlers.onPull(frame.pull, (items) => {
      if (replied) return;
      replied = true;
      this.#unanswered--;
      this.#reply(frame.correlation, items);
    });
    return undefined;
  }

  #reply(correlation: number, items: readonly PulledItem[] | undefined): void {
    if (items === undefined) this.#owner.figures.forbiddenPulls++;
    if (!this.socket.writable) return;
    for (const frame of encodeReply(items, correlation))
      if (!this.#frames.send(frame, "kept")) return this.cutOff("it doesn't read what it pulled");
  }

  /**
   * Called at equal intervals. Deadlines are counted in calls, not in time: after a standstill of this process a peer
   * whose bytes wait in the socket isn't late.
   */
  sweep(): void {
    const { partial, partialBytes } = this.#assembler;
    const hasGrown = partial !== this.#partial || partialBytes - this.#partialBytes >= FRAME_GROWTH_BYTES_MIN;
    this.#partial = partial;
    this.#partialBytes = partialBytes;
    if (this.#executor !== 0 && (partial === 0 || hasGrown)) this.#sweeps = 0;
    else if (++this.#sweeps >= (this.#executor === 0 ? HELLO_SWEEPS : FRAME_SWEEPS))
      this.cutOff(this.#executor === 0 ? "no hello in time" : "a frame that it has begun is not whole in time");
  }

  cutOff(reason: string): void {
    if (this.socket.destroyed) return;
    this.#report(`is cut off: ${reason}`);
    this.socket.destroy();
  }

  #report(text: string): void {
    this.#owner.fault(`${this.#address} (executor ${this.#executor}) ${text}`);
  }

  /** Closes the connection once the queued replies are sent. */
  end(): void {
    this.#frames.flush();
    this.socket.destroySoon();
  }
}
