/** Refusals as gRPC has them. */
import { Metadata, type StatusObject, status } from "@grpc/grpc-js";
import { type ErrorCode, TuttiError } from "@tutti/protocol";

export const GRPC_STATUS: Readonly<Record<ErrorCode, status>> = {
  TUTTI_INVALID_INPUT: status.INVALID_ARGUMENT,
  TUTTI_UNAUTHENTICATED: status.UNAUTHENTICATED,
  TUTTI_FORBIDDEN: status.PERMISSION_DENIED,
  TUTTI_NOT_FOUND: status.NOT_FOUND,
  // What gRPC itself says of a message beyond its limit.
  TUTTI_TOO_LARGE: status.RESOURCE_EXHAUSTED,
  TUTTI_QUOTA_EXCEEDED: status.RESOURCE_EXHAUSTED,
  TUTTI_CANCELLED: status.CANCELLED,
  TUTTI_INTERNAL: status.INTERNAL,
  TUTTI_DEADLINE_INFEASIBLE: status.DEADLINE_EXCEEDED,
  TUTTI_OVERLOADED: status.RESOURCE_EXHAUSTED,
  TUTTI_UNAVAILABLE: status.UNAVAILABLE,
  TUTTI_NOT_READY: status.UNAVAILABLE,
  TUTTI_DEADLINE_EXCEEDED: status.DEADLINE_EXCEEDED,
};

export const asTuttiError = (failure: unknown): TuttiError =>
  failure instanceof TuttiError
    ? failure
    : new TuttiError("TUTTI_INTERNAL", "the request failed because of a fault on our side", { cause: failure });

/** Several codes share a status: the trailers tell them apart, and when to come again, in gRPC's own words too. */
export function grpcFailure(failure: unknown): Pick<StatusObject, "code" | "details" | "metadata"> {
  const error = asTuttiError(failure);
  const metadata = new Metadata();
  metadata.set("tutti-code", error.code);
  metadata.set("tutti-retryable", String(error.retryable));
  if (error.retryAfterMs !== undefined) {
    metadata.set("tutti-retry-after-ms", String(error.retryAfterMs));
    metadata.set("grpc-retry-pushback-ms", String(Math.ceil(error.retryAfterMs)));
  }
  return { code: GRPC_STATUS[error.code], details: headerText(error.message), metadata };
}

/** grpc-js encodes what is not ASCII; line breaks have no place in a status. */
const headerText = (text: string): string => text.replaceAll(/[\r\n]+/g, " ");
