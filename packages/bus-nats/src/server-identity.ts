/** Whether a NATS server's certificate is that of the server which was asked for. */
import { isIP } from "node:net";
import { type PeerCertificate, checkServerIdentity } from "node:tls";

export type IdentityCheck = (host: string, certificate: PeerCertificate) => Error | undefined;

/**
 * The check for these servers. The NATS client passes on no address, and Node then checks the name `localhost`: a
 * certificate that names an address of the list is good as well.
 */
export function identityCheck(servers: readonly string[]): IdentityCheck {
  const addresses = servers.map(hostOf).filter((host) => isIP(host) !== 0);
  return (host, certificate) => {
    const error = checkServerIdentity(host, certificate);
    if (error === undefined || host !== "localhost") return error;
    const errors = addresses.map((address) => checkServerIdentity(address, certificate));
    return errors.includes(undefined) ? undefined : (errors[0] ?? error);
  };
}

/** The host of `nats://user@host:port`, of which all but the host may be absent. */
function hostOf(server: string): string {
  const url = server.includes("://") ? server : `nats://${server}`;
  return URL.canParse(url) ? new URL(url).hostname.replace(/^\[|\]$/g, "") : "";
}
