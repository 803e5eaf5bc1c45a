/**
 * A private certificate authority and the server certificates that it signs. They use ECDSA on P-256, which NATS
 * servers and Node both accept.
 */
import "reflect-metadata"; // what tsyringe, below @peculiar/x509, wants to find
import type { webcrypto } from "node:crypto";
import { isIP } from "node:net";
import * as x509 from "@peculiar/x509";

export interface KeyAndCertificate {
  /** PEM. */
  readonly certificate: string;
  /** PEM, PKCS #8, not encrypted: the file's mode protects it. */
  readonly key: string;
}

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;
const DAY_MS = 86_400_000;
/** Certificates start earlier, since clocks of other hosts may be behind. */
const EARLIER_MS = 3_600_000;

export async function createAuthority(name: string, days: number): Promise<KeyAndCertificate> {
  const keys = await generateKeys();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: [{ CN: [`tutti ${name}`] }],
    serialNumber: serialNumber(),
    keys,
    signingAlgorithm: ALGORITHM,
    ...validFor(days),
    extensions: [
      // The authority signs certificates of servers, but no further authorities.
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { certificate: pemOf(certificate), key: await privateKeyPem(keys) };
}

/** @param hosts - names and addresses of the server; clients refuse connections under any other */
export async function signServer(
  authority: KeyAndCertificate,
  hosts: readonly string[],
  days: number,
): Promise<KeyAndCertificate> {
  const issuer = new x509.X509Certificate(authority.certificate);
  const signingKey = await crypto.subtle.importKey(
    "pkcs8",
    x509.PemConverter.decodeFirst(authority.key),
    ALGORITHM,
    false,
    ["sign"],
  );
  const keys = await generateKeys();
  const certificate = await x509.X509CertificateGenerator.create({
    subject: [{ CN: [hosts[0] ?? "tutti"] }],
    issuer: issuer.subjectName,
    serialNumber: serialNumber(),
    publicKey: keys.publicKey,
    signingKey,
    signingAlgorithm: ALGORITHM,
    ...validFor(days),
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      // Both ends of a route between servers show it.
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth, x509.ExtendedKeyUsage.clientAuth]),
      new x509.SubjectAlternativeNameExtension(
        hosts.map((value) => ({ type: isIP(value) === 0 ? ("dns" as const) : ("ip" as const), value })),
      ),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      await x509.AuthorityKeyIdentifierExtension.create(issuer.publicKey),
    ],
  });
  return { certificate: pemOf(certificate), key: await privateKeyPem(keys) };
}

const generateKeys = (): Promise<webcrypto.CryptoKeyPair> =>
  crypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);

const validFor = (days: number): { readonly notBefore: Date; readonly notAfter: Date } => ({
  notBefore: new Date(Date.now() - EARLIER_MS),
  notAfter: new Date(Date.now() + days * DAY_MS),
});

/** 127 random bits, positive. */
function serialNumber(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[0]! &= 0x7f;
  return Buffer.from(bytes).toString("hex");
}

const pemOf = (certificate: x509.X509Certificate): string => `${certificate.toString("pem")}\n`;

async function privateKeyPem({ privateKey }: webcrypto.CryptoKeyPair): Promise<string> {
  const bytes = await crypto.subtle.exportKey("pkcs8", privateKey);
  return `${x509.PemConverter.encode(bytes, "PRIVATE KEY")}\n`;
}
