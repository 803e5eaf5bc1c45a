/** Maps errors to gRPC statuses. */
import { Metadata, type StatusObject, status } from "@grpc/grpc-js";
import { type ErrorCode, TuttiError } from "@tutti/protocol";

export const GRPC_STATUS: Readonly<Record<ErrorCode, status>> = {
  TUTTI_INVALID_INPUT: status.INVALID_ARGUMENT,
  TUTTI_UNAUTHENTICATED: status.UNAUTHENTICATED,
  TUTTI_FORBIDDEN: status.PERMISSION_DENIED,
  TUTTI_NOT_FOUND: status.NOT_FOUND,
  // As gRPC's own status for a message beyond its limit.
  TUTTI_TOO_LARGE: status.RESOURCE_EXHAUSTED,
  TUTTI_QUOTA_EXCEEDED: status.RESOURCE_EXHAUSTED,
  TUTTI_CANCELLED: status.CANCELLED,
  TUTTI_INTERNAL: status.INTERNAL,
  TUTTI_DEADLINE_INFEASIBLE: status.FAILED_PRECONDITION,
  TUTTI_OVERLOADED: status.RESOURCE_EXHAUSTED,
  TUTTI_UNAVAILABLE: status.UNAVAILABLE,
  TUTTI_NOT_READY: status.UNAVAILABLE,
  TUTTI_DEADLINE_EXCEEDED: status.DEADLINE_EXCEEDED,
};

/** The status of an answer: clients and proxies send a call again by the status alone, as over HTTP. */
function statusOf({ code, retryable }: TuttiError): status {
  const usual = GRPC_STATUS[code];
  if (usual === status.FAILED_PRECONDITION && retryable) return status.RESOURCE_EXHAUSTED;
  return usual === status.UNAVAILABLE && !retryable ? status.FAILED_PRECONDITION : usual;
}

export const asTuttiError = (failure: unknown): TuttiError =>
  failure instanceof TuttiError
    ? failure
    : new TuttiError("TUTTI_INTERNAL", "the request failed because of a fault on our side", { cause: failure });

/**
 * Makes a gRPC status. Several codes share one: the trailers hold the code, and the retry time also in gRPC's own form.
 */
export function grpcFailure(failure: unknown): Pick<StatusObject, "code" | "details" | "metadata"> {
  const error = asTuttiError(failure);
  const metadata = new Metadata();
  metadata.set("tutti-code", error.code);
  metadata.set("tutti-retryable", String(error.retryable));
  if (error.retryAfterMs !== undefined) {
    metadata.set("tutti-retry-after-ms", String(error.retryAfterMs));
    metadata.set("grpc-retry-pushback-ms", String(Math.ceil(error.retryAfterMs)));
  }
  return { code: statusOf(error), details: headerText(error.message), metadata };
}

/** Removes line breaks, which a status may not have; grpc-js encodes other characters beyond ASCII. */
const headerText = (text: string): string => text.replaceAll(/[\r\n]+/g, " ");
