export { doctor } from "@tutti/admin/doctor";
