import { type Micros, micros } from "@tutti/units";

/** Largest share of a request's SLO reserved for each of d_ctrl, d_resp and the timer guard. */
const RESERVE_SHARE_MAX = 0.12;

/**
 * Reserves part of an SLO for a measured delay. On a machine that is overloaded for a while, a high quantile of any
 * delay outgrows the SLO; reserved in full it would refuse every request, of which most could still be answered in
 * time. Late answers are counted, and the delays are reported.
 */
export const reserve = (measured: Micros, slo: Micros): Micros =>
  micros(Math.min(measured, Math.round(slo * RESERVE_SHARE_MAX)));
