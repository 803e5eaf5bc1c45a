/**
 * Open-loop load: requests leave when they are due, whatever became of earlier ones, and every answer to each is
 * recorded.
 */
import type { Bus, Delivery } from "@tutti/ports/bus";
import { CONTENT, HEADER, inferSubject } from "@tutti/protocol";
import { Prng } from "@tutti/units";
import { decodeTensors, encodeTensors } from "@tutti/wire";
import { type Gateway, MODELS, WIDTH } from "./models.ts";
import { askOverHttp } from "./http-asker.ts";
import type { SentRequest } from "./record.ts";
import { APP, sloUsOf } from "./request-code.ts";

/** Timer resolution, so coarse that the generator takes no core from the cluster. */
const TICK_MS = 2;

export interface ChaosLoadOptions {
  readonly perSecond: number;
  readonly seed: number;
  readonly sloMs: number;
  /** Gateways for every other request; none: all requests go over NATS. */
  readonly gateways: (first: number) => readonly Gateway[];
}

export class ChaosLoad {
  readonly requests: SentRequest[] = [];
  /** Longest lag of a request behind its due time. */
  lagMsMax = 0;
  readonly #bus: Bus;
  readonly #inbox: string;
  readonly #perMs: number;
  readonly #sloMs: number;
  readonly #prng: Prng;
  readonly #gateways: (first: number) => readonly Gateway[];
  #nextMs = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(bus: Bus, options: ChaosLoadOptions) {
    this.#bus = bus;
    this.#inbox = `${bus.newInbox()}.`;
    this.#sloMs = options.sloMs;
    this.#perMs = options.perSecond / 1_000;
    this.#prng = new Prng(options.seed);
    this.#gateways = options.gateways;
    bus.subscribe(`${this.#inbox}*`, (delivery) => this.#onAnswer(delivery));
  }

  start(): void {
    this.#nextMs = performance.now();
    this.#timer = setInterval(() => this.#sendDue(), TICK_MS);
  }
  /** Stops sending; answers are still recorded. */
  stop(): void {
    clearInterval(this.#timer);
  }

  /**
   * Sends due requests. Poisson arrivals ask the models in turn, so that gaps between answers of one model are those of
   * the system.
   */
  #sendDue(): void {
    const now = performance.now();
    for (; this.#nextMs <= now; this.#nextMs += this.#prng.nextExponential(this.#perMs)) {
      this.lagMsMax = Math.max(this.lagMsMax, now - this.#nextMs);
      this.#send();
    }
  }

  #send(): void {
    const token = this.requests.length;
    const model = MODELS[token % MODELS.length]!;
    const sloUs = sloUsOf(token, this.#sloMs);
    const request: SentRequest = {
      token,
      model,
      sentMs: performance.now(),
      sloMs: sloUs / 1_000,
      answers: [],
      broken: [],
    };
    this.requests.push(request);
    // Half of each model's requests go over NATS, half over HTTP.
    const [turn, way] = [Math.floor(token / MODELS.length / 2), Math.floor(token / MODELS.length) % 2];
    const gateways = way === 0 ? [] : this.#gateways(turn);
    if (gateways.length > 0) this.#askOverHttp(request, sloUs, gateways);
    else this.#publish(request, sloUs);
  }

  #publish({ token, model }: SentRequest, sloUs: number): void {
    const data = new Uint8Array(inputOf(token).buffer);
    const payload = encodeTensors([{ name: "x", type: "FP32", dims: [1, WIDTH], data }]);
    const headers = { [HEADER.contentType]: CONTENT.binary, [HEADER.slo]: `${sloUs}us` };
    this.#bus.publish(inferSubject(model, APP), payload, { reply: this.#inbox + token.toString(36), headers });
  }

  #askOverHttp(request: SentRequest, sloUs: number, gateways: readonly Gateway[]): void {
    const { token, model, answers, broken } = request;
    askOverHttp(
      gateways,
      { model, app: APP, sloUs, row: [...inputOf(token)] },
      {
        onAsked: (name) => (request.via = name),
        onBroken: (name, code) => broken.push({ name, code, atMs: performance.now() }),
        onAnswer: (status) => answers.push({ atMs: performance.now(), status }),
      },
    );
  }

  #onAnswer(delivery: Delivery): void {
    const atMs = performance.now();
    const token = Number.parseInt(delivery.subject.slice(this.#inbox.length), 36);
    this.requests[token]?.answers.push({ atMs, status: statusOf(delivery, token) });
  }
}

/** The input row: exact in f32 up to 2^24 requests, and different for each request. */
const inputOf = (token: number): Float32Array => Float32Array.from({ length: WIDTH }, (_, i) => token + i * 1_000_003);

function statusOf(delivery: Delivery, token: number): string {
  if (delivery.header("Status") === "503") return "NO_INGRESS";
  if (delivery.header(HEADER.errorCode) !== undefined)
    return (JSON.parse(Buffer.from(delivery.payload).toString()) as { code: string }).code;
  try {
    const [tensor] = decodeTensors(delivery.payload);
    const expected = new Uint8Array(inputOf(token).buffer);
    return tensor !== undefined && Buffer.compare(tensor.data, expected) === 0 ? "ok" : "wrong";
  } catch {
    return "wrong";
  }
}
