/** `tutti restart`, `drain`, `undrain`, `split`, `logs`, `status`, `top` and `actors`. */
export { actors, logs, operate, status, top } from "@tutti/admin/operator-commands";
export { wholeNumber } from "@tutti/host";
