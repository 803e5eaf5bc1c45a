export {
  AuthDirectory,
  type NewDeployment,
  type ServerPlace,
  type TlsFiles,
  writePrivately,
} from "./auth-directory.ts";
export { createAuthority, type KeyAndCertificate, signServer } from "./certificates.ts";
