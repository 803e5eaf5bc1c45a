export {
  AuthDirectory,
  type NewDeployment,
  type ServerPlace,
  type TlsFiles,
  writePrivately,
} from "./auth-directory.ts";
