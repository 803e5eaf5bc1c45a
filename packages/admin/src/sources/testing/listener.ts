/** A server of this process on loopback, which notes what it is asked. */
import { once } from "node:events";
import { type IncomingMessage, type RequestListener, type Server, createServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { createAuthority, signServer } from "../../auth/certificates.ts";

export class Listener {
  readonly url: string;
  readonly asked: IncomingMessage[];
  readonly #server: Server;

  private constructor(server: Server, url: string, asked: IncomingMessage[]) {
    this.#server = server;
    this.url = url;
    this.asked = asked;
  }

  static start(answer: RequestListener): Promise<Listener> {
    return Listener.#listen(createServer(), "http", answer);
  }

  /** With a certificate that this process trusts from now on. */
  static async startTls(answer: RequestListener): Promise<Listener> {
    const authority = await createAuthority("sources", 1);
    const { certificate: cert, key } = await signServer(authority, ["localhost"], 1);
    setDefaultCACertificates([...getCACertificates(), authority.certificate]);
    return Listener.#listen(createTlsServer({ cert, key }), "https", answer);
  }

  static async #listen(server: Server, scheme: string, answer: RequestListener): Promise<Listener> {
    const asked: IncomingMessage[] = [];
    server.on("request", (request, response) => {
      asked.push(request);
      answer(request, response);
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return new Listener(server, `${scheme}://localhost:${(server.address() as AddressInfo).port}`, asked);
  }

  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}
