export { AuthDirectory, type NewDeployment, type ServerPlace, type TlsFiles } from "./auth-directory.ts";
export { type KeyAndCertificate, createAuthority, signServer } from "./certificates.ts";
