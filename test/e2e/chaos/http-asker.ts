/** Sends requests over HTTP. The ingress of each is known: the one in the process of the gateway that was asked. */
import { request } from "node:http";
import { HEADER } from "@tutti/protocol";
import type { Gateway } from "./models.ts";

export interface HttpQuestion {
  readonly model: string;
  readonly app: string;
  readonly sloUs: number;
  readonly row: readonly number[];
}

export interface HttpHandlers {
  /** The gateway that is asked next. */
  readonly onAsked: (name: string) => void;
  /** The connection to a gateway broke, with this code. */
  readonly onBroken: (name: string, code: string | undefined) => void;
  /** `ok`, `wrong`, an error's code, or `NO_INGRESS` where no gateway answers. */
  readonly onAnswer: (status: string) => void;
}

/**
 * Asks a gateway, and the next one where it does not listen or the connection breaks. A load balancer does the same.
 * Connections that were not yet accepted when a gateway closed break, too.
 */
export function askOverHttp(gateways: readonly Gateway[], question: HttpQuestion, handlers: HttpHandlers): void {
  const [gateway, ...others] = gateways;
  if (gateway === undefined) return handlers.onAnswer("NO_INGRESS");
  const { model, app, sloUs, row } = question;
  const body = JSON.stringify({ inputs: [{ name: "x", datatype: "FP32", shape: [1, row.length], data: row }] });
  const headers = { "content-type": "application/json", "tutti-app": app, [HEADER.slo]: `${sloUs}us` };
  const url = `${gateway.url}/v2/models/${model}/infer`;
  handlers.onAsked(gateway.name);
  // Each request has a connection of its own: a server may close one that is kept just when it is used again.
  const asking = request(url, { method: "POST", agent: false, headers }, (response) => {
    let text = "";
    response.setEncoding("utf8");
    response.on("data", (chunk: string) => (text += chunk));
    response.on("error", ({ code }: NodeJS.ErrnoException) => handlers.onBroken(gateway.name, code));
    response.on("end", () => handlers.onAnswer(statusOf(response.statusCode ?? 0, text, row)));
  });
  asking.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "ECONNREFUSED") handlers.onBroken(gateway.name, error.code);
    askOverHttp(others, question, handlers);
  });
  asking.end(body);
}

function statusOf(code: number, text: string, row: readonly number[]): string {
  try {
    const body = JSON.parse(text) as { readonly code?: string; readonly outputs?: readonly { data: number[] }[] };
    if (code !== 200) return body.code ?? `HTTP ${code}`;
    const data = body.outputs?.[0]?.data;
    return data?.length === row.length && data.every((value, i) => value === row[i]) ? "ok" : "wrong";
  } catch {
    return code === 200 ? "wrong" : `HTTP ${code}`;
  }
}
