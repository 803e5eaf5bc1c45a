/** `/metrics` for Prometheus, with the other paths for monitoring: health, and the advice on scaling. */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { TuttiError, errorBody } from "@tutti/protocol";
import type { Registry } from "prom-client";
import type { InferenceService } from "../inference-service.ts";
import { type HttpAnswer, failureAnswer, send } from "../http/answers.ts";
import { boundedServer } from "../http/bounded-server.ts";
import type { PageGuard } from "../http/page-guard.ts";

export class MetricsFront {
  readonly server: Server;
  readonly #registry: Registry;
  readonly #inferenceService: InferenceService;
  readonly #guard: PageGuard;
  #reading: Promise<string> | undefined;

  constructor(registry: Registry, inferenceService: InferenceService, guard: PageGuard) {
    this.#registry = registry;
    this.#inferenceService = inferenceService;
    this.#guard = guard;
    this.server = boundedServer((request, response) => void this.#serve(request, response));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      send(response, await this.#answer(request));
    } catch (error) {
      send(response, failureAnswer(error));
    }
  }

  async #answer(request: IncomingMessage): Promise<HttpAnswer> {
    this.#guard(request);
    const { method, url } = request;
    const path = url?.split("?", 1)[0] ?? "";
    if (method !== "GET" && method !== "HEAD") {
      const body = errorBody(new TuttiError("TUTTI_INVALID_INPUT", "this path takes GET"));
      return { status: 405, headers: { allow: "GET" }, body };
    }
    if (path === "/metrics") return this.#metrics();
    if (path === "/v2/health/live") return { status: 200, body: { live: true } };
    const advice = this.#inferenceService.scaling(path);
    if (advice !== undefined) return advice;
    throw new TuttiError("TUTTI_NOT_FOUND", "there are /metrics, /scaling and /v2/health/live here");
  }

  /** Renders the metrics. Concurrent scrapes share one rendering, and cost no more than one. */
  async #metrics(): Promise<HttpAnswer> {
    this.#reading ??= this.#registry.metrics().finally(() => (this.#reading = undefined));
    const text = await this.#reading;
    return { status: 200, chunks: [Buffer.from(text)], headers: { "content-type": this.#registry.contentType } };
  }
}
