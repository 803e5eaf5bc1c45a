/**
 * Credentials that expire. A nats-server that reads users from its configuration knows public keys and no times. One
 * that trusts an operator reads tokens (JWT), which carry the user's permissions and their expiry, and accounts name
 * the revoked users. The price: permissions stand in every user's file, so new ones mean new files.
 */
import { Algorithms, encodeAccount, encodeOperator, encodeUser, fmtCreds } from "@nats-io/jwt";
import { createAccount, createOperator, createUser, fromSeed } from "@nats-io/nkeys";
import type { JwtAccess } from "./nats-config.ts";
import { NATS_CONSUMERS_MAX, NATS_MEMORY_BYTES_MAX, NATS_STREAMS_MAX } from "./nats-limits.ts";
import type { NatsUser } from "./users.ts";

/** Secret: its holder can make users of every kind. */
export interface Authority {
  readonly operatorSeed: string;
  /** Signed once: a running server does not take another. */
  readonly operatorToken: string;
  readonly accountSeed: string;
  readonly systemSeed: string;
}

/** Credentials of an issued user, and the public key by which they can be revoked. */
export interface IssuedUser {
  readonly publicKey: string;
  /** Text of the `.creds` file. */
  readonly creds: string;
}

type Keys = ReturnType<typeof createUser>;
const seedText = (keys: Keys): string => new TextDecoder().decode(keys.getSeed());
const keysOf = (seed: string): Keys => fromSeed(new TextEncoder().encode(seed));

export async function createSigningAuthority(): Promise<Authority> {
  const [operator, account, system] = [createOperator(), createAccount(), createAccount()];
  const claims = { system_account: system.getPublicKey() };
  return {
    operatorSeed: seedText(operator),
    operatorToken: await encodeOperator("tutti", operator, claims, { algorithm: Algorithms.v2 }),
    accountSeed: seedText(account),
    systemSeed: seedText(system),
  };
}

const UNLIMITED = {
  ...{ subs: -1, data: -1, payload: -1, imports: -1, exports: -1, conn: -1, leaf: -1, wildcards: true },
  ...{ mem_storage: -1, disk_storage: -1, streams: -1, consumer: -1 },
} as const;

/** As natsConfig limits accounts without tokens; the server limits the rest for all accounts. */
const STORE = { mem_storage: NATS_MEMORY_BYTES_MAX, streams: NATS_STREAMS_MAX, consumer: NATS_CONSUMERS_MAX } as const;

/**
 * Encodes the accounts that a server with an operator reads.
 *
 * @param revoked - public keys of users, and the moment (seconds since 1970) up to which their credentials are void
 */
export async function jwtAccess(
  authority: Authority,
  account: string,
  revoked: Readonly<Record<string, number>>,
): Promise<JwtAccess> {
  const [operator, own, system] = [authority.operatorSeed, authority.accountSeed, authority.systemSeed].map(keysOf);
  const signed = { algorithm: Algorithms.v2, signer: operator! };
  const systemAccount = system!.getPublicKey();
  const [ownToken, systemToken] = await Promise.all([
    encodeAccount(account, own!, { limits: { ...UNLIMITED, ...STORE }, revocations: { ...revoked } }, signed),
    encodeAccount("SYS", system!, { limits: { ...UNLIMITED, ...NO_STORE } }, signed),
  ]);
  return {
    operator: authority.operatorToken,
    systemAccount,
    accounts: { [own!.getPublicKey()]: ownToken, [systemAccount]: systemToken },
  };
}

/** The system account has no JetStream: a server refuses to start otherwise. */
const NO_STORE = { mem_storage: 0, disk_storage: 0, streams: 0, consumer: 0 } as const;

/** @param expiresAt - seconds since 1970; undefined: never */
export async function issueUser(
  authority: Authority,
  user: NatsUser,
  expiresAt: number | undefined,
): Promise<IssuedUser> {
  const keys = createUser();
  const permissions = {
    pub: { allow: [...user.publish] },
    sub: {
      allow: [...user.subscribe],
      ...(user.neverSubscribe === undefined ? {} : { deny: [...user.neverSubscribe] }),
    },
  };
  const token = await encodeUser(user.name, keys, keysOf(authority.accountSeed), permissions, {
    algorithm: Algorithms.v2,
    ...(expiresAt !== undefined && { exp: expiresAt }),
  });
  const creds = new TextDecoder().decode(fmtCreds(token, keys));
  return { publicKey: keys.getPublicKey(), creds: `# ${user.name}\n# inbox-prefix: ${user.inboxPrefix}\n${creds}` };
}
