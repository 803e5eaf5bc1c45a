/** `tutti restart`, `drain`, `undrain`, `split`, `logs`, `refusals`, `status`, `top` and `actors`. */
export { actors, logs, operate, refusals, status, top } from "@tutti/admin/operator-commands";
