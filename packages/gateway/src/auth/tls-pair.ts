/**
 * The certificate that clients are shown. A renewed one counts for the connections that come after it; those that there
 * are stay.
 */
import { createSecureContext } from "node:tls";
import { ServerCredentials } from "@grpc/grpc-js";
import type { Logger } from "@tutti/ports/telemetry";
import { WatchedFiles } from "./watched-files.ts";

/** Paths of PEM files. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
  /** How often they are looked at. Default: once a second. */
  readonly lookEveryMs?: number | undefined;
}
export interface TlsPair {
  readonly cert: string;
  readonly key: string;
}

export class GatewayTls {
  /** Of gRPC's server. */
  readonly credentials: ServerCredentials;
  readonly #files: WatchedFiles<TlsPair>;
  #onRenewed: (pair: TlsPair) => void = () => undefined;

  /** @throws {Error} the files are not there, or no pair */
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
  createSecureContext({ cert, key }); // throws where one is not the other's
  return { cert, key };
}

/** grpc-js renews what its servers show only for credentials of classes of its own or derived ones. */
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
