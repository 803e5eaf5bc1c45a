import { type ModelSpec, publicNameOf } from "@tutti/protocol";
import type { Micros } from "@tutti/units";

/** Target of a request: a model, or else a pipeline, of which the gateway knows only the name. */
export interface RequestTarget {
  /** Name in the figures. */
  readonly name: string;
  readonly publicName: string;
  readonly version: string;
  /** The model's SLO; only the ingress knows a pipeline's. */
  readonly slo: Micros | undefined;
  /** Time that the ingress adds where the model is parked; undefined: it never is. */
  readonly coldStart?: Micros;
  /** Names in the order of answers; undefined: all, in any order. */
  readonly outputs: readonly string[] | undefined;
  readonly isPipeline: boolean;
  /** Outputs of a pipeline that are text. */
  readonly texts?: ReadonlySet<string> | undefined;
}

/** Targets of the models that are loaded: a request asks for one that others asked for before. */
const targets = new WeakMap<ModelSpec, RequestTarget>();

export function targetOf(spec: ModelSpec): RequestTarget {
  let target = targets.get(spec);
  if (target === undefined) targets.set(spec, (target = modelTarget(spec)));
  return target;
}

const modelTarget = ({ name, version, slo, scaleToZero, outputs }: ModelSpec): RequestTarget => ({
  ...{ name, publicName: publicNameOf(name), version, slo, isPipeline: false },
  ...(scaleToZero !== undefined && { coldStart: scaleToZero.coldStart }),
  outputs: outputs.map((output) => output.name),
});
