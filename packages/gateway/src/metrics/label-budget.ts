/** Bounds the label values that come from outside, and with them the series (T7): further values become "other". */
export const LABEL_APPS_MAX = 64;
/** Combinations of model, application and SLO class; each is a histogram of a dozen series. */
export const LABEL_COMBINATIONS_MAX = 1_024;

export const OTHER = "other";

/**
 * Upper bounds of the SLO classes, in seconds. Requests due within 30 ms are not comparable to those that may take a
 * second.
 */
const SLO_CLASSES: readonly (readonly [number, string])[] = [
  [0.01, "10ms"],
  [0.025, "25ms"],
  [0.05, "50ms"],
  [0.1, "100ms"],
  [0.25, "250ms"],
  [0.5, "500ms"],
  [1, "1s"],
  [5, "5s"],
];

/** The class of an SLO: the first whose bound it does not exceed. */
export const sloClass = (seconds: number): string => SLO_CLASSES.find(([most]) => seconds <= most)?.[1] ?? "longer";

export interface RequestLabels {
  readonly model: string;
  readonly app: string;
  readonly slo_class: string;
}

const REST: RequestLabels = { model: OTHER, app: OTHER, slo_class: OTHER };

export class LabelBudget {
  /** Labels by model, application and SLO class. */
  readonly #known = new Map<string, Map<string, Map<string, RequestLabels>>>();
  readonly #apps = new Set<string>();
  #combinations = 0;
  readonly #appsMax: number;
  readonly #combinationsMax: number;

  constructor(appsMax: number = LABEL_APPS_MAX, combinationsMax: number = LABEL_COMBINATIONS_MAX) {
    this.#appsMax = appsMax;
    this.#combinationsMax = combinationsMax;
  }

  /** @returns the same object for the same labels */
  labelsOf(model: string, app: string, sloS: number): RequestLabels {
    const named = this.#apps.has(app) || this.#apps.size < this.#appsMax ? app : OTHER;
    if (named !== OTHER) this.#apps.add(named);
    const slo_class = sloClass(sloS);
    const known = this.#known.get(model)?.get(named)?.get(slo_class);
    if (known !== undefined) return known;
    if (this.#combinations >= this.#combinationsMax) return REST;
    this.#combinations++;
    const labels = { model, app: named, slo_class };
    entryOf(entryOf(this.#known, model), named).set(slo_class, labels);
    return labels;
  }
}

function entryOf<Value>(all: Map<string, Map<string, Value>>, key: string): Map<string, Value> {
  let entry = all.get(key);
  if (entry === undefined) all.set(key, (entry = new Map()));
  return entry;
}
