/** Prometheus queries, composed from shared parts. */

/** The rate per second over a window that Grafana chooses, at least four scrapes. */
export const rate = (selector: string, window = "$__rate_interval"): string => `rate(${selector}[${window}])`;
export const sumBy = (labels: string, expression: string): string => `sum by (${labels}) (${expression})`;
/** A share; without a value where the whole is 0. */
export const share = (part: string, whole: string): string => `(${part}) / (${whole} > 0)`;
export const quantile = (q: number, labels: string, histogram: string): string =>
  `histogram_quantile(${q}, ${sumBy(`le, ${labels}`, rate(`${histogram}_bucket`))})`;
