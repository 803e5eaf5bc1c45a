/** `tutti jobs` and `tutti jobs dead`. */
export { dead, jobs } from "@tutti/admin/jobs";
