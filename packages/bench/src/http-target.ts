/** Load over HTTP: the Open Inference Protocol with binary tensors, on keep-alive connections. */
import { Agent as HttpAgent, type ClientRequest, type IncomingMessage, request as httpRequest } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { type Tensor, splitModelName } from "@tutti/protocol";
import { errorOf } from "./nats-target.ts";
import { type Answer, OK_ANSWER, type Outgoing, type Target } from "./target.ts";

export interface HttpStream {
  readonly model: string;
  readonly app: string;
  readonly body: OipBody;
}
/** JSON, and the tensors' bytes behind it. */
export interface OipBody {
  readonly bytes: Uint8Array;
  readonly jsonBytes: number;
}

export interface HttpTargetOptions {
  /** `http://host:8000`. */
  readonly url: string;
  readonly streams: readonly HttpStream[];
  /** Connections at once; requests beyond wait for one, and are counted in `held`. */
  readonly connections: number;
}

/** Bytes of a refusal's body that are kept: the rest is read and dropped. */
const BODY_KEPT = 65_536;

/** The path of a model, or of one of its versions: `mlp/2` is `/v2/models/mlp/versions/2`. */
export function modelPath(model: string): string {
  const { name, version } = splitModelName(model);
  return `/v2/models/${name}${version === undefined ? "" : `/versions/${version}`}`;
}

export class HttpTarget implements Target {
  held = 0;
  readonly #url: URL;
  readonly #streams: readonly HttpStream[];
  readonly #connections: number;
  readonly #agent: HttpAgent | HttpsAgent;
  readonly #underWay = new Map<number, ClientRequest>();
  #onAnswer: (token: number, answer: Answer) => void = () => undefined;

  constructor({ url, streams, connections }: HttpTargetOptions) {
    this.#url = new URL(url);
    this.#streams = streams;
    this.#connections = connections;
    const options = { keepAlive: true, maxSockets: connections, maxFreeSockets: connections };
    this.#agent = this.#url.protocol === "https:" ? new HttpsAgent(options) : new HttpAgent(options);
  }

  open(onAnswer: (token: number, answer: Answer) => void): void {
    this.#onAnswer = onAnswer;
  }

  send({ token, stream, slo }: Outgoing): boolean {
    const { model, app, body } = this.#streams[stream]!;
    if (this.#underWay.size >= this.#connections) this.held++;
    const start = this.#url.protocol === "https:" ? httpsRequest : httpRequest;
    const outgoing = start(new URL(`${modelPath(model)}/infer`, this.#url), {
      method: "POST",
      agent: this.#agent,
      headers: {
        "content-type": "application/octet-stream",
        "content-length": body.bytes.byteLength,
        "inference-header-content-length": body.jsonBytes,
        "tutti-app": app,
        "tutti-slo": `${slo}us`,
      },
    });
    this.#underWay.set(token, outgoing);
    outgoing.on("response", (response) => this.#read(token, response));
    outgoing.on("error", (error: NodeJS.ErrnoException) => this.#settle(token, failed(error)));
    outgoing.end(body.bytes);
    return true;
  }

  forget(token: number): void {
    const outgoing = this.#underWay.get(token);
    this.#underWay.delete(token);
    outgoing?.destroy();
  }

  close(): void {
    for (const token of [...this.#underWay.keys()]) this.forget(token);
    this.#agent.destroy();
  }

  #read(token: number, response: IncomingMessage): void {
    const { statusCode = 0 } = response;
    if (statusCode === 200) response.resume();
    const kept: Buffer[] = [];
    let size = 0;
    if (statusCode !== 200)
      response.on("data", (chunk: Buffer) => {
        size += chunk.byteLength;
        if (size <= BODY_KEPT) kept.push(chunk);
      });
    response.on("end", () =>
      this.#settle(token, statusCode === 200 ? OK_ANSWER : errorOf(Buffer.concat(kept), `HTTP_${statusCode}`)),
    );
    response.on("error", (error) => this.#settle(token, failed(error)));
  }

  /** Reports the first outcome of a request; a forgotten or already settled one reports nothing. */
  #settle(token: number, answer: Answer): void {
    if (this.#underWay.delete(token)) this.#onAnswer(token, answer);
  }
}

const failed = (error: NodeJS.ErrnoException): Answer => ({ outcome: error.code ?? "HTTP_FAILED", retryAfterMs: 0 });

/** A request of the Open Inference Protocol that asks for binary outputs too. */
export function oipBody(tensors: readonly Tensor[]): OipBody {
  const json = new TextEncoder().encode(
    JSON.stringify({
      inputs: tensors.map(({ name, type, dims, data }) => ({
        ...{ name, datatype: type, shape: dims },
        parameters: { binary_data_size: data.byteLength },
      })),
      parameters: { binary_data_output: true },
    }),
  );
  const bytes = Buffer.concat([json, ...tensors.map(({ data }) => data)]);
  return { bytes, jsonBytes: json.byteLength };
}
