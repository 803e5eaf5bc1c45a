/** Checks the key before a message is read: a refused call costs no more than its headers. */
import { ServerInterceptingCall, type ServerInterceptor } from "@grpc/grpc-js";
import type { Access } from "../auth/access.ts";
import { grpcFailure } from "./grpc-errors.ts";
import { HEALTH_CHECK } from "./standard-services.ts";

/** Methods that need no key: whether the gateway lives, and whether it serves. */
const KEYLESS = ["/ServerLive", "/ServerReady", HEALTH_CHECK];

export const keysFirst =
  (access: Access): ServerInterceptor =>
  ({ path }, call) => {
    if (KEYLESS.some((method) => path.endsWith(method))) return new ServerInterceptingCall(call);
    return new ServerInterceptingCall(call, {
      start: (next) =>
        next({
          onReceiveMetadata: (metadata, goOn) => {
            const [given] = metadata.get("authorization");
            const key = typeof given === "string" ? given : undefined;
            access
              .admit(key, () => call.getPeer())
              .then(
                () => goOn(metadata),
                (error: unknown) => call.sendStatus(grpcFailure(error)),
              );
          },
        }),
    });
  };
