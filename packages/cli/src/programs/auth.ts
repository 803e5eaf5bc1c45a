/** The flags of `tutti auth`. */
import type { Command } from "commander";

const withDirectory = (command: Command): Command =>
  command.option("--dir <folder>", "where keys and configurations are", "tutti-auth").option("--json", "print JSON");

const EXPIRES = "how long applications' credentials are good, such as 30d; needs tokens instead of keys (--jwt)";

export function addAuth(program: Command): void {
  const auth = program
    .command("auth")
    .description("make and void credentials, and the configuration of NATS servers that take them");
  withDirectory(auth.command("init"))
    .description("write a configuration of NATS servers, and credentials for every role, the operator and applications")
    .option("--cluster <name>", "which deployment; its account on the servers", "main")
    .option("--app <names...>", "applications that get credentials (later: `tutti auth add-app`)", [])
    .option(
      "--host <addresses>",
      "where the servers listen: one address, or one for each, separated by commas",
      "127.0.0.1",
    )
    .option("--port <port>", "of the first server", "4222")
    .option("--nats-cluster <n>", "how many servers make one cluster")
    .option("--tls", "make an authority and certificates, and refuse connections without TLS")
    .option("--tls-ca <file>", "certificates that you have: the authority's,")
    .option("--tls-cert <file>", "the servers',")
    .option("--tls-key <file>", "and their key")
    .option("--jwt", "signed tokens, which can expire, instead of public keys in the configuration")
    .option("--expires <duration>", EXPIRES)
    .option("--force", "make new keys where there are some: the old ones are void then")
    .action(async (options) => (await import("../commands/auth.ts")).init(options));
  withDirectory(auth.command("add-app <app>"))
    .description("credentials for one more application")
    .option("--expires <duration>", EXPIRES)
    .action(async (app: string, options) => (await import("../commands/auth.ts")).addApp(app, options));
  withDirectory(auth.command("revoke <app|role>"))
    .description("void somebody's credentials, and have the servers here cut them off")
    .action(async (name: string, options) => (await import("../commands/auth.ts")).revoke(name, options));
  withDirectory(auth.command("renew <app|role>"))
    .description("new credentials in place of somebody's old ones, which are void")
    .option("--expires <duration>", EXPIRES)
    .action(async (name: string, options) => (await import("../commands/auth.ts")).renew(name, options));
  withDirectory(auth.command("write"))
    .description("write the servers' configurations anew, after auth.json was edited: servers that moved, for example")
    .action(async (options) => (await import("../commands/auth.ts")).write(options));
  withDirectory(auth.command("certificate <name>"))
    .description("sign a certificate, such as for an ingress on another host, or in place of one that ends")
    .option(
      "--hosts <names>",
      "names and addresses under which it is reached, separated by commas",
      "localhost,127.0.0.1",
    )
    .option("--days <n>", "how long it is good", "397")
    .action(async (name: string, options) => (await import("../commands/auth.ts")).certificate(name, options));
  addKeys(auth);
}

function addKeys(auth: Command): void {
  const key = auth.command("key").description("API keys of applications that ask over HTTP or gRPC");
  withDirectory(key.command("add <app>"))
    .description("make a key, and print it once; gateways with --api-keys take it within seconds")
    .option("--admin", "it may also load and unload models, restart actors and read the console")
    .option("--expires <duration>", "how long it is good, such as 30d (default: until it is revoked)")
    .action(async (app: string, options) => (await import("../commands/api-keys.ts")).addKey(app, options));
  withDirectory(key.command("list"))
    .description("list the keys that there are, and the quotas")
    .action(async (options) => (await import("../commands/api-keys.ts")).listKeys(options));
  withDirectory(key.command("revoke <id>"))
    .description("void a key; gateways refuse it within seconds")
    .action(async (id: string, options) => (await import("../commands/api-keys.ts")).revokeKey(id, options));
  withDirectory(auth.command("quota <app>"))
    .description("what an application may take of each gateway; '*' is each application without a quota of its own")
    .option("--rate <n>", "requests a second; as many may come at once")
    .option("--bytes <size>", "of requests that are being read or answered, such as 64MB")
    .action(async (app: string, options) => (await import("../commands/api-keys.ts")).setQuota(app, options));
}
