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

export class LabelBudget {
  readonly #apps = new Set<string>();
  readonly #combinations = new Set<string>();
  readonly #appsMax: number;
  readonly #combinationsMax: number;

  constructor(appsMax: number = LABEL_APPS_MAX, combinationsMax: number = LABEL_COMBINATIONS_MAX) {
    this.#appsMax = appsMax;
    this.#combinationsMax = combinationsMax;
  }

  labelsOf({
    model,
    app,
    sloS,
  }: {
    readonly model: string;
    readonly app: string;
    readonly sloS: number;
  }): RequestLabels {
    const named = this.#apps.has(app) || this.#apps.size < this.#appsMax ? app : OTHER;
    if (named !== OTHER) this.#apps.add(named);
    const labels = { model, app: named, slo_class: sloClass(sloS) };
    const combination = Object.values(labels).join(" ");
    if (this.#combinations.has(combination)) return labels;
    if (this.#combinations.size >= this.#combinationsMax) return { model: OTHER, app: OTHER, slo_class: OTHER };
    this.#combinations.add(combination);
    return labels;
  }
}
