import { userInfo } from "node:os";

/** The user of this process. `userInfo` alone fails in a container whose user has no entry in /etc/passwd. */
export const userId = (): number => process.getuid?.() ?? userInfo().uid;
