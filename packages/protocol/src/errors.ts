/** Error codes of the public protocol. Match on the code; texts are for people and may change. */
export const ERROR_STATUS = {
  /**
   * The body can't be read; a tensor's name, type, shape or length is not the model's; a header is malformed; the model
   * can't compute this input.
   */
  TUTTI_INVALID_INPUT: 400,
  /** A gateway that asks for keys got none, or one that is invalid or expired. */
  TUTTI_UNAUTHENTICATED: 401,
  /** These credentials don't allow it. */
  TUTTI_FORBIDDEN: 403,
  /** No model of this name or version exists, or it was unloaded while the request waited. */
  TUTTI_NOT_FOUND: 404,
  /** The request or its answer exceeds a limit, which the text names. */
  TUTTI_TOO_LARGE: 413,
  /** The application sends more, or has more under way, than its quota at this gateway. */
  TUTTI_QUOTA_EXCEEDED: 429,
  /** The publisher cancelled the request. */
  TUTTI_CANCELLED: 499,
  /** A fault on our side: a run failed, an output could not be read. */
  TUTTI_INTERNAL: 500,
  /**
   * The deadline couldn't have been met even by this request alone. If only the load was in the way, the answer says
   * that it may be sent again (503).
   */
  TUTTI_DEADLINE_INFEASIBLE: 422,
  /** Dropped so that batches behind it stay in time, or beyond its application's share, or beyond a bound. */
  TUTTI_OVERLOADED: 503,
  /** There is no ingress, or the one that had the request died; or its model was parked, and not loaded in time. */
  TUTTI_UNAVAILABLE: 503,
  /**
   * The model is loading, being measured, or waits for an executor. If it was refused, failed or quarantined, the
   * answer says so, and that the request may not be sent again (422).
   */
  TUTTI_NOT_READY: 503,
  /** The deadline passed without a result: a batch was lost, or ran longer than planned. */
  TUTTI_DEADLINE_EXCEEDED: 504,
} as const;

/** Statuses of codes that say of each answer whether the request may be sent again. */
const MAY_BE_SENT_AGAIN = 503;
const MAY_NOT = 422;

export type ErrorCode = keyof typeof ERROR_STATUS;

const RETRYABLE: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "TUTTI_QUOTA_EXCEEDED",
  "TUTTI_OVERLOADED",
  "TUTTI_UNAVAILABLE",
  "TUTTI_NOT_READY",
  "TUTTI_DEADLINE_EXCEEDED",
]);

export const isRetryable = (code: ErrorCode): boolean => RETRYABLE.has(code);

export interface TuttiErrorOptions {
  /** Overrides the code's own answer to whether the same request may be sent again, unchanged. */
  readonly retryable?: boolean;
  /** Time until sending again first makes sense, in milliseconds from now. */
  readonly retryAfterMs?: number;
  readonly cause?: unknown;
}

/** A failure that crosses a package, or reaches a publisher. Its text says what happened and what to do next. */
export class TuttiError extends Error {
  override readonly name = "TuttiError";
  readonly code: ErrorCode;
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;

  constructor(code: ErrorCode, text: string, options: TuttiErrorOptions = {}) {
    // A refusal is an answer, and an overloaded system gives thousands a second. Only internal errors need a stack,
    // which takes 50 µs to gather.
    const { stackTraceLimit } = Error;
    if (code !== "TUTTI_INTERNAL") Error.stackTraceLimit = 0;
    super(text, options.cause === undefined ? undefined : { cause: options.cause });
    Error.stackTraceLimit = stackTraceLimit;
    this.code = code;
    this.retryable = options.retryable ?? isRetryable(code);
    this.retryAfterMs = options.retryAfterMs;
  }

  /** Proxies send a request again by the status alone: 503 is exactly for what may be. */
  get status(): number {
    const status = ERROR_STATUS[this.code];
    if (status !== MAY_BE_SENT_AGAIN && status !== MAY_NOT) return status;
    return this.retryable ? MAY_BE_SENT_AGAIN : MAY_NOT;
  }
}

/** The body of an error answer, beside the NATS services headers that carry status and text. */
export interface ErrorBody {
  readonly error: string;
  readonly code: ErrorCode;
  readonly retryable: boolean;
  readonly retryAfterMs?: number;
}

export function errorBody(error: TuttiError): ErrorBody {
  const body = { error: error.message, code: error.code, retryable: error.retryable };
  return error.retryAfterMs === undefined ? body : { ...body, retryAfterMs: error.retryAfterMs };
}

/** Codes as small numbers, for records on the hot path. Append only: an old reader must understand a new writer. */
const CODES: readonly ErrorCode[] = [
  "TUTTI_INTERNAL",
  "TUTTI_INVALID_INPUT",
  "TUTTI_FORBIDDEN",
  "TUTTI_NOT_FOUND",
  "TUTTI_TOO_LARGE",
  "TUTTI_CANCELLED",
  "TUTTI_DEADLINE_INFEASIBLE",
  "TUTTI_OVERLOADED",
  "TUTTI_UNAVAILABLE",
  "TUTTI_NOT_READY",
  "TUTTI_DEADLINE_EXCEEDED",
  "TUTTI_UNAUTHENTICATED",
  "TUTTI_QUOTA_EXCEEDED",
];
export const codeNumber = (code: ErrorCode): number => CODES.indexOf(code);
export const codeOfNumber = (number: number): ErrorCode => CODES[number] ?? "TUTTI_INTERNAL";
