/** Loaded where certificates are made, and nowhere else: its library takes a while. */
export { createAuthority, signServer } from "@tutti/admin/certificates";
