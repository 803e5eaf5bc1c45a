/**
 * Seeds whose publishers ask in unlike ways: jobs, requests that are cancelled, size hints, priorities, and costs of
 * late answers.
 */
import { HEADER } from "@tutti/protocol";
import { Prng } from "@tutti/units";
import type { Plan } from "./plan.ts";

/** How one request differs from a plain one. */
export interface Kind {
  readonly headers: Readonly<Record<string, string>>;
  /** Its last deadline: so many times its SLO. */
  readonly patience: number;
  readonly isJob: boolean;
  /** Share of its SLO after which its publisher takes it back. */
  readonly cancelledAt: number | undefined;
}

/** Shares of the requests of a seed. */
export interface Kinds {
  readonly jobs: number;
  readonly cancelled: number;
  readonly sized: number;
  readonly urgent: number;
  readonly stepped: number;
}

/** Share of seeds with unlike requests, of those that are neither calm nor struck. */
const SHARE = 0.3;
/** A job, and a request with a second step, have so many SLOs. */
const PATIENCE = 3;
export const PLAIN: Kind = { headers: {}, patience: 1, isJob: false, cancelledAt: undefined };

/** A generator of its own, so that the rest of a seed means what it meant. */
export function withKinds(plan: Plan): Plan {
  const prng = new Prng(plan.seed * 3_001 + 29);
  if (plan.calm || plan.struck || prng.nextFloat() >= SHARE) return plan;
  const share = (): number => (prng.nextFloat() < 0.6 ? 0.3 * prng.nextFloat() : 0);
  const [jobs, cancelled, sized, urgent, stepped] = [share(), share(), share(), share(), share()];
  return { ...plan, kinds: { jobs, cancelled, sized, urgent, stepped } };
}

/** By when, in SLOs, the last request of a plan is decided. */
export const patienceOf = ({ kinds }: Plan): number => (kinds === undefined ? 1 : PATIENCE);

/** Draws the kind of one request. */
export function drawKind({ kinds }: Plan, prng: Prng, sloMs: number): Kind {
  if (kinds === undefined) return PLAIN;
  const [isJob, isCancelled, isSized, isUrgent, isStepped] = [
    kinds.jobs,
    kinds.cancelled,
    kinds.sized,
    kinds.urgent,
    kinds.stepped,
  ].map((share) => prng.nextFloat() < share);
  const hasSteps = isStepped === true && isJob !== true;
  const headers = {
    ...(isJob && { [HEADER.job]: "1" }),
    ...(isSized && { [HEADER.size]: String(1 + prng.nextInt(1_000)) }),
    ...(isUrgent && { [HEADER.priority]: String(1 + prng.nextInt(3)) }),
    ...(hasSteps && { [HEADER.costs]: `${sloMs}ms=1, ${PATIENCE * sloMs}ms=${2 + prng.nextInt(3)}` }),
  };
  const cancelledAt = isCancelled ? prng.nextFloat() : undefined;
  return { headers, patience: isJob === true || hasSteps ? PATIENCE : 1, isJob: isJob === true, cancelledAt };
}
