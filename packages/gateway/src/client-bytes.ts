/** Bytes held for the clients of one address, over HTTP and gRPC. */
import type { Socket } from "node:net";
import { networkOf } from "./connections.ts";

/** The account of one address. */
export class ClientBytes {
  readonly address: string;
  bytes = 0;
  sockets = 0;

  constructor(address: string) {
    this.address = address;
  }
}

/**
 * Accounts by address. An account lasts until its sockets are closed and its bytes are released. A request finds its
 * account by socket, without a look at the address.
 */
export class ClientAccounts {
  readonly #ofSocket = new WeakMap<Socket, ClientBytes>();
  readonly #ofAddress = new Map<string, ClientBytes>();

  of(socket: Socket): ClientBytes {
    return this.#ofSocket.get(socket) ?? this.#open(socket);
  }

  /** Removes the account if it is empty. */
  settle(client: ClientBytes): void {
    if (client.bytes === 0 && client.sockets === 0) this.#ofAddress.delete(client.address);
  }

  #open(socket: Socket): ClientBytes {
    const address = networkOf(socket.remoteAddress ?? "");
    let account = this.#ofAddress.get(address);
    if (account === undefined) this.#ofAddress.set(address, (account = new ClientBytes(address)));
    const client = account;
    this.#ofSocket.set(socket, client);
    client.sockets++;
    const leave = (): void => {
      client.sockets--;
      this.settle(client);
    };
    if (socket.closed) leave();
    else socket.once("close", leave);
    return client;
  }
}
