/** The gateway's certificate. A renewed one applies to new connections; existing ones stay. */
import { createSecureContext } from "node:tls";
import { ServerCredentials } from "@grpc/grpc-js";
import type { Logger } from "@tutti/ports/telemetry";
import { WatchedFiles } from "./watched-files.ts";

/** Paths of PEM files. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
  /** Interval of the checks for changed files. Default: once a second. */
  readonly lookEveryMs?: number | undefined;
}
export interface TlsPair {
  readonly cert: string;
  readonly key: string;
}

export class GatewayTls {
  /** Credentials of the gRPC server. */
  readonly credentials: ServerCredentials;
  readonly #files: WatchedFiles<TlsPair>;
  #onRenewed: (pair: TlsPair) => void = () => undefined;

  /** @throws {Error} the files are missing, or certificate and key do not match */
  constructor({ cert, key, lookEveryMs }: TlsFiles, log: Logger) {
    this.#files = new WatchedFiles({
      paths: [cert, key],
      read: ([certText = "", keyText = ""]) => pairOf(certText, keyText),
      onChange: (pair) => {
        credentials.renew(pair);
        this.#onRenewed(pair);
        log.info({ cert }, "the certificate is another one now");
      },
      onTrouble: (text) => log.warn({ trouble: text }, "the certificate stays as it was"),
      lookEveryMs,
    });
    const credentials = new RenewedCredentials(this.#files.current);
    this.credentials = credentials;
  }

  get pair(): TlsPair {
    return this.#files.current;
  }

  onRenewed(listener: (pair: TlsPair) => void): void {
    this.#onRenewed = listener;
  }

  stop(): void {
    this.#files.stop();
  }
}

function pairOf(cert: string, key: string): TlsPair {
  createSecureContext({ cert, key }); // throws where they do not match
  return { cert, key };
}

/** Server credentials with renewal: grpc-js supports it only for credentials of its own or derived classes. */
class RenewedCredentials extends ServerCredentials {
  constructor(pair: TlsPair) {
    super({ requestCert: false }, pair);
  }

  renew(pair: TlsPair): void {
    this.updateSecureContextOptions(pair);
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other;
  }
}
