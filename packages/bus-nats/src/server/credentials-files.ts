import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createUser, fromSeed } from "@nats-io/nkeys";
import type { NatsUser } from "./users.ts";

export interface UserFile extends NatsUser {
  readonly publicKey: string;
  /** Absolute if the directory is. */
  readonly path: string;
}

/**
 * Makes a new key of a user, and the text of its credentials file. `nats --nkey <file> --inbox-prefix <prefix>` takes
 * such files too.
 */
export function createNkey(user: NatsUser): { readonly publicKey: string; readonly text: string } {
  const keys = createUser();
  const text = `# ${user.name}\n# inbox-prefix: ${user.inboxPrefix}\n${new TextDecoder().decode(keys.getSeed())}\n`;
  return { publicKey: keys.getPublicKey(), text };
}

/**
 * Writes one file per user, readable by its owner alone. It holds the seed, and as a comment the inbox prefix that goes
 * with it. Existing keys stay, so that actors need no new files when the server is set up again.
 */
export function writeCredentials(directory: string, users: readonly NatsUser[]): readonly UserFile[] {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  return users.map((user) => {
    const path = join(directory, `${user.name}.nk`);
    const seed = existsSync(path) ? /^SU[A-Z2-7]+$/m.exec(readFileSync(path, "utf8"))?.[0] : undefined;
    if (seed !== undefined) {
      return { ...user, path, publicKey: fromSeed(new TextEncoder().encode(seed)).getPublicKey() };
    }
    const { publicKey, text } = createNkey(user);
    writeFileSync(path, text, { mode: 0o600 });
    return { ...user, path, publicKey };
  });
}
