/** A client like Triton's: over HTTP with raw tensors behind the JSON, over gRPC with raw contents. */
import { type Client, Metadata, type ServiceError, credentials } from "@grpc/grpc-js";
import { inferenceService } from "../grpc/grpc-front.ts";
import type { WireInferResponse, WireParameter } from "../grpc/grpc-tensors.ts";
import type { GatewayAddresses } from "../gateway.ts";

type Parameters = Readonly<Record<string, string | number | boolean>>;
export interface AskedInput {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  /** Undefined: the bytes lie elsewhere, as the parameters say. */
  readonly bytes?: Uint8Array;
  readonly parameters?: Parameters;
}
export interface Asked {
  readonly inputs: readonly AskedInput[];
  readonly outputs?: readonly { readonly name: string; readonly parameters?: Parameters }[];
  readonly parameters?: Parameters;
}
export interface AnsweredOutput {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly data: Uint8Array;
  readonly parameters: Parameters;
}
export interface Answered {
  /** Undefined: the request was answered. */
  readonly error: string | undefined;
  readonly code: string;
  readonly version: string;
  readonly outputs: readonly AnsweredOutput[];
}

export const TRANSPORTS = ["http", "grpc"] as const;
export type Transport = (typeof TRANSPORTS)[number];

export class OipClient {
  readonly #http: string;
  readonly #grpc: Client;

  constructor({ http, grpc }: GatewayAddresses) {
    this.#http = http;
    this.#grpc = new (inferenceService())(grpc, credentials.createInsecure());
  }

  close(): void {
    this.#grpc.close();
  }

  ask(transport: Transport, model: string, asked: Asked, headers: Record<string, string> = {}): Promise<Answered> {
    return transport === "http" ? this.#overHttp(model, asked, headers) : this.#overGrpc(model, asked, headers);
  }

  /** @returns the body, or the failure with its `tutti-code` */
  call<Answer>(name: string, request: object, headers: Record<string, string> = {}): Promise<Answer> {
    type Unary = (
      request: object,
      metadata: Metadata,
      done: (error: ServiceError | null, answer: Answer) => void,
    ) => void;
    const method = (this.#grpc as unknown as Record<string, Unary>)[name]!.bind(this.#grpc);
    return new Promise((resolve, reject) =>
      method(request, Metadata.fromHttp2Headers(headers), (error, answer) => {
        if (error === null) resolve(answer);
        else reject(error);
      }),
    );
  }

  /** @returns the answers as they come. Rejects with the first error */
  stream(asked: readonly object[]): Promise<readonly WireInferResponse[]> {
    type Said = { readonly error_message: string; readonly infer_response: WireInferResponse };
    const open = (this.#grpc as unknown as Record<string, () => NodeJS.ReadWriteStream>)["ModelStreamInfer"]!;
    const stream = open.call(this.#grpc);
    const answers: WireInferResponse[] = [];
    return new Promise((resolve, reject) => {
      stream.on("data", ({ error_message: error, infer_response: answer }: Said) => {
        if (error !== "") reject(new Error(error));
        answers.push(answer);
      });
      stream.on("error", reject);
      stream.on("end", () => resolve(answers));
      for (const request of asked) stream.write(request as never);
      stream.end();
    });
  }

  async #overHttp(model: string, asked: Asked, headers: Record<string, string>): Promise<Answered> {
    const { inputs, outputs, parameters } = asked;
    const json = JSON.stringify({
      inputs: inputs.map(({ name, datatype, shape, bytes, parameters: own }) => {
        const size = bytes === undefined ? {} : { binary_data_size: bytes.byteLength };
        return { name, datatype, shape, parameters: { ...own, ...size } };
      }),
      ...(outputs !== undefined && { outputs }),
      parameters: { binary_data_output: true, ...parameters },
    });
    const response = await fetch(`${this.#http}/v2/models/${model}/infer`, {
      method: "POST",
      body: Buffer.concat([Buffer.from(json), ...inputs.flatMap(({ bytes }) => bytes ?? [])]),
      headers: { ...headers, "inference-header-content-length": String(Buffer.byteLength(json)) },
    });
    const bytes = new Uint8Array(await response.arrayBuffer());
    const length = Number(response.headers.get("inference-header-content-length") ?? bytes.byteLength);
    const head = JSON.parse(new TextDecoder().decode(bytes.subarray(0, length))) as {
      readonly error?: string;
      readonly code?: string;
      readonly model_version?: string;
      readonly outputs?: readonly (Omit<AnsweredOutput, "data" | "parameters"> & {
        readonly parameters?: Parameters;
      })[];
    };
    let at = length;
    const read = (head.outputs ?? []).map(({ name, datatype, shape, parameters: own = {} }) => {
      const from = at;
      at += Number(own["binary_data_size"] ?? 0);
      return { name, datatype, shape, parameters: own, data: bytes.slice(from, at) };
    });
    return { error: head.error, code: head.code ?? "ok", version: head.model_version ?? "", outputs: read };
  }

  async #overGrpc(model: string, asked: Asked, headers: Record<string, string>): Promise<Answered> {
    try {
      const answer = await this.call<WireInferResponse>("ModelInfer", wireRequest(model, asked), headers);
      return { error: undefined, code: "ok", version: answer.model_version, outputs: outputsOf(answer) };
    } catch (error) {
      const { details, metadata } = error as ServiceError;
      return { error: details, code: String(metadata.get("tutti-code")[0]), version: "", outputs: [] };
    }
  }
}

/** The request in the form of `@grpc/proto-loader`. */
function wireRequest(model: string, { inputs, outputs = [], parameters }: Asked): object {
  return {
    model_name: model,
    parameters: wireParameters(parameters),
    inputs: inputs.map(({ name, datatype, shape, parameters: own }) => ({
      ...{ name, datatype, shape, parameters: wireParameters(own) },
    })),
    outputs: outputs.map(({ name, parameters: own }) => ({ name, parameters: wireParameters(own) })),
    raw_input_contents: inputs.flatMap(({ bytes }) => bytes ?? []),
  };
}

const wireParameters = (given: Parameters = {}): object =>
  Object.fromEntries(
    Object.entries(given).map(([name, value]) => [
      name,
      typeof value === "boolean"
        ? { bool_param: value }
        : typeof value === "number"
          ? { int64_param: value }
          : { string_param: value },
    ]),
  );

function outputsOf({ outputs, raw_output_contents: raw }: WireInferResponse): AnsweredOutput[] {
  return outputs.map((output, i) => {
    const given = (output as { readonly parameters?: Readonly<Record<string, WireParameter>> }).parameters ?? {};
    const parameters = Object.fromEntries(
      Object.entries(given).map(([name, { string_param: text, int64_param: count }]) => [name, text ?? Number(count)]),
    );
    const { name, datatype, shape } = output;
    return { name, datatype, shape: shape.map(Number), parameters, data: new Uint8Array(raw[i]!) };
  });
}

/** Bytes of a float tensor with these values. */
export const floatBytes = (...values: number[]): Uint8Array => new Uint8Array(Float32Array.from(values).buffer);
