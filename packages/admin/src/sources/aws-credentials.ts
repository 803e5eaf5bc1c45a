/**
 * Credentials and region for S3, from the places where the AWS SDKs look, in their order: the environment, the shared
 * files, a token of Kubernetes (IRSA), the container (ECS, EKS Pod Identity), the machine (EC2).
 */
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { isIP } from "node:net";
import { promisify } from "node:util";
import { CommandError } from "../failure.ts";
import { awsProfile } from "./aws-profile.ts";
import { type HttpGet, TEXT_BYTES_MAX, httpGet, textOf } from "./http-get.ts";

export interface AwsCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
  /** When they end; undefined: never. */
  readonly expiresMs?: number | undefined;
}

/** A variable that is set to nothing counts as absent, as for the AWS SDKs. */
type Environment = NodeJS.ProcessEnv;
/** A machine that is no EC2 instance lets the address of its metadata run into the void. */
const METADATA_MS = 1_000;
const PROCESS_MS = 60_000;

/** @returns undefined where none of the places has any: the bucket may be public */
export async function awsCredentials(env: Environment = process.env): Promise<AwsCredentials | undefined> {
  const given = pairOf(env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], env["AWS_SESSION_TOKEN"]);
  if (given !== undefined && !env["AWS_PROFILE"]) return given;
  return (await ofProfile(env)) ?? given ?? (await ofToken(env)) ?? (await ofContainer(env)) ?? (await ofMachine(env));
}

export async function awsRegion(env: Environment = process.env): Promise<string> {
  return env["AWS_REGION"] || env["AWS_DEFAULT_REGION"] || (await awsProfile(env)).settings["region"] || "us-east-1";
}

function pairOf(id = "", secret = "", token = ""): AwsCredentials | undefined {
  if (id === "" || secret === "") return undefined;
  return { accessKeyId: id, secretAccessKey: secret, ...(token !== "" && { sessionToken: token }) };
}

async function ofProfile(env: Environment): Promise<AwsCredentials | undefined> {
  const { name, settings } = await awsProfile(env);
  const { aws_access_key_id: id, aws_secret_access_key: secret, aws_session_token: token } = settings;
  const given = pairOf(id, secret, token);
  if (given !== undefined) return given;
  const { credential_process: command, web_identity_token_file: file, role_arn: role } = settings;
  if (command !== undefined) return ofProcess(command, name);
  if (file !== undefined && role !== undefined)
    return ofToken({ ...env, AWS_WEB_IDENTITY_TOKEN_FILE: file, AWS_ROLE_ARN: role });
  if (!env["AWS_PROFILE"]) return undefined;
  throw new CommandError(
    `profile "${name}" of AWS has no keys that can be read here: run \`eval "$(aws configure export-credentials --profile ${name} --format env)"\` and unset AWS_PROFILE`,
  );
}

/** The output of a credential process, and the answer of the container's and the machine's address. */
interface Said {
  readonly AccessKeyId?: string;
  readonly SecretAccessKey?: string;
  readonly SessionToken?: string;
  readonly Token?: string;
  readonly Expiration?: string;
}

async function ofProcess(command: string, profile: string): Promise<AwsCredentials> {
  const options = { timeout: PROCESS_MS, shell: true };
  const { stdout } = await promisify(execFile)(command, options).catch((error: { code?: unknown }) => {
    // Neither its output nor its arguments are shown: both may hold secrets.
    throw new CommandError(`credential_process of AWS profile "${profile}" failed (${String(error.code)})`);
  });
  return saidBy(`credential_process of AWS profile "${profile}"`, stdout);
}

function saidBy(origin: string, text: string): AwsCredentials {
  let said: Said = {};
  try {
    said = JSON.parse(text) as Said;
  } catch {
    // Its text may hold a secret, so it isn't shown.
  }
  const pair = pairOf(said.AccessKeyId, said.SecretAccessKey, said.SessionToken ?? said.Token);
  if (pair === undefined) throw new CommandError(`${origin} gave no credentials`);
  return { ...pair, ...(said.Expiration !== undefined && { expiresMs: Date.parse(said.Expiration) }) };
}

async function ofToken(env: Environment): Promise<AwsCredentials | undefined> {
  const { AWS_WEB_IDENTITY_TOKEN_FILE: file, AWS_ROLE_ARN: role } = env;
  if (!file || !role) return undefined;
  const token = await readFile(file, "utf8").catch((error: Error) => {
    throw new CommandError(`AWS_WEB_IDENTITY_TOKEN_FILE: ${error.message}`);
  });
  const endpoint = env["AWS_ENDPOINT_URL_STS"] || env["AWS_ENDPOINT_URL"];
  const action = { Action: "AssumeRoleWithWebIdentity", Version: "2011-06-15" };
  const session = { RoleArn: role, RoleSessionName: env["AWS_ROLE_SESSION_NAME"] || "tutti" };
  const text = await ask("AWS STS", {
    url: new URL(endpoint || `https://sts.${await awsRegion(env)}.amazonaws.com/`),
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams({ ...action, ...session, WebIdentityToken: token.trim() }).toString(),
  });
  const field = (name: string): string | undefined => new RegExp(`<${name}>([^<]*)</${name}>`).exec(text)?.[1];
  const pair = pairOf(field("AccessKeyId"), field("SecretAccessKey"), field("SessionToken"));
  if (pair === undefined) throw new CommandError(`AWS STS gave no credentials for ${role}`);
  return { ...pair, expiresMs: Date.parse(field("Expiration") ?? "") };
}

async function ofContainer(env: Environment): Promise<AwsCredentials | undefined> {
  const { AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: relative, AWS_CONTAINER_CREDENTIALS_FULL_URI: full } = env;
  const address = relative ? `http://169.254.170.2${relative}` : full;
  if (!address) return undefined;
  const url = URL.canParse(address) ? new URL(address) : undefined;
  const isLocal =
    url?.hostname === "localhost" || (isIP(url?.hostname ?? "") > 0 && /^(127|169\.254)\./.test(url!.hostname));
  if (url === undefined || (url.protocol !== "https:" && !isLocal && url.hostname !== "[fd00:ec2::23]"))
    throw new CommandError("AWS_CONTAINER_CREDENTIALS_FULL_URI: an address of https, or of this machine");
  const file = env["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"];
  const token = file ? (await readFile(file, "utf8")).trim() : env["AWS_CONTAINER_AUTHORIZATION_TOKEN"];
  const secrets = token ? { authorization: token } : {};
  return saidBy("the container's address of AWS", await ask("the container's address of AWS", { url, secrets }));
}

async function ofMachine(env: Environment): Promise<AwsCredentials | undefined> {
  if (env["AWS_EC2_METADATA_DISABLED"]?.toLowerCase() === "true") return undefined;
  const base = env["AWS_EC2_METADATA_SERVICE_ENDPOINT"] || "http://169.254.169.254";
  const path = new URL("/latest/meta-data/iam/security-credentials/", base);
  try {
    const signal = AbortSignal.timeout(METADATA_MS);
    const life = { "x-aws-ec2-metadata-token-ttl-seconds": "60" };
    const origin = "the machine's address of AWS";
    const token = await ask(origin, {
      ...{ url: new URL("/latest/api/token", base), method: "PUT", headers: life, signal },
    });
    const secrets = { "x-aws-ec2-metadata-token": token };
    const role = (await ask(origin, { url: path, secrets, signal })).trim().split("\n")[0]!;
    return saidBy(origin, await ask(origin, { url: new URL(encodeURIComponent(role), path), secrets, signal }));
  } catch {
    return undefined; // no EC2 instance, or one without a role
  }
}

type Asked = Omit<HttpGet, "label" | "bytesMax" | "redirectsMax">;

function ask(label: string, get: Asked): Promise<string> {
  return httpGet({ ...get, label, bytesMax: TEXT_BYTES_MAX, redirectsMax: 0 }, async (reply) => {
    const text = await textOf(reply);
    if (reply.status === 200) return text;
    const [, code = ""] = /<Code>(\w+)<\/Code>/.exec(text) ?? [];
    throw new CommandError(`${label} gives no credentials: HTTP ${reply.status} ${code}`.trimEnd());
  });
}
