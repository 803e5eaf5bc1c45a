/**
 * Triton's model repository over the cluster's: models come with the request that loads them, or are there already. It
 * keeps what it unloads.
 */
import { ModelRegistry, RouteRegistry, absentModelError } from "@tutti/client/registries";
import { describeModel, draftModel, parseModelConfig, passedOverKeys } from "@tutti/onnx-tools";
import { type ModelSpec, NAME_RULE, TuttiError, isName } from "@tutti/protocol";
import type { Store } from "@tutti/ports/store";
import type { Logger } from "@tutti/ports/telemetry";

/** Time limit for a load: profiling takes seconds on a busy machine, and Triton's clients wait too. */
const SERVED_MS = 120_000;
/** SLO of a model whose configuration gives none. */
const SLO_DEFAULT = "100ms";

export interface RepositoryCall {
  readonly name: string;
  /** The `parameters` of the request: `config`, and `file:<path>` with the model's bytes in base64. */
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly signal: AbortSignal;
}

export class Repository {
  readonly #registry: ModelRegistry;
  readonly #routes: RouteRegistry;
  readonly #log: Logger;

  constructor(store: Store, log: Logger) {
    this.#log = log;
    this.#registry = new ModelRegistry(store);
    this.#routes = new RouteRegistry(store);
  }

  /** Resolves once the model is served. @throws {TuttiError} saying why it isn't */
  async load({ name, parameters, signal }: RepositoryCall): Promise<void> {
    checkName(name);
    const file = fileOf(parameters);
    const config = configOf(parameters["config"]);
    const spec = file === undefined ? await this.#known(name) : await this.#publish(name, file, config);
    const status = await this.#registry.waitUntilServed(spec, { timeoutMs: SERVED_MS, signal });
    if (status.state === "ready") return;
    throw new TuttiError("TUTTI_NOT_READY", `"${name}" is ${status.state}: ${status.reason}`, { retryable: false });
  }

  /** A model that is unloaded already stays so. @throws {TuttiError} NOT_FOUND */
  async unload(name: string): Promise<void> {
    checkName(name);
    if (!(await this.#routes.unload(name, { keep: true }))) throw await absentModelError(this.#registry, name);
  }

  /** Finds a model to load again, unloaded or not, and clears the faults recorded for it. */
  async #known(name: string): Promise<ModelSpec> {
    await this.#registry.restore(name);
    const spec = await this.#registry.get(name);
    if (spec === undefined)
      throw new TuttiError(
        "TUTTI_NOT_FOUND",
        `no model named "${name}" is there: send its file as the parameter "file:1/model.onnx" in base64, or use \`tutti load\``,
      );
    await this.#registry.release(name);
    return spec;
  }

  #publish(name: string, file: Uint8Array, config: unknown): Promise<ModelSpec> {
    const given = parseModelConfig(config, "config");
    const passedOver = passedOverKeys(config);
    if (passedOver.length > 0)
      this.#log.info({ name, passedOver: passedOver.join() }, "keys of Triton's that change nothing here");
    const description = describeModel(file);
    const {
      sha256: _,
      bytes: __,
      version: ___,
      ...draft
    } = draftModel({ slo: SLO_DEFAULT, ...given, name }, description);
    const { version } = given;
    return this.#registry.publish({ ...draft, ...(version !== undefined && { version }) }, { model: file });
  }
}

function checkName(name: string): void {
  if (!isName(name)) throw invalid(`"${name.slice(0, 80)}" is no name of a model: ${NAME_RULE}`);
}

function fileOf(parameters: RepositoryCall["parameters"]): Uint8Array | undefined {
  const files = Object.entries(parameters).filter(([key]) => key.startsWith("file:"));
  if (files.length === 0) return undefined;
  const [[, content] = [], ...more] = files;
  if (more.length > 0) throw invalid("a model is one file: external data is not served");
  if (content instanceof Uint8Array) return content;
  if (typeof content === "string" && /^[A-Za-z0-9+/]*={0,2}$/.test(content)) return Buffer.from(content, "base64");
  throw invalid('the parameter "file:…" is the model in base64');
}

function configOf(config: unknown): unknown {
  if (config === undefined || config === "") return {};
  if (typeof config !== "string") throw invalid("the parameter config is JSON in a text, with the keys of config.yaml");
  try {
    return JSON.parse(config) as unknown;
  } catch (cause) {
    throw new TuttiError("TUTTI_INVALID_INPUT", "the parameter config is no JSON", { cause });
  }
}

const invalid = (text: string): TuttiError => new TuttiError("TUTTI_INVALID_INPUT", text);
